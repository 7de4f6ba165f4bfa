// setmaxnreg: warps hand registers to one another through the pool that the workgroup got at its launch.
#pragma once

#include <string>
#include <vector>

#include "backends/emulator/workgroup.h"

namespace attnfuse::cuda {

class Registers {
 public:
  explicit Registers(emulator::Workgroup& group) : group_(group) {}

  void begin();
  // Warps that may go on.
  std::vector<int> lower(int warp, int registers);
  std::vector<int> raise(int warp, int registers);  // those that still wait get theirs from a later lower()
  void end() const;                                 // the warps of a warpgroup have asked for the same
  std::string place(int lane) const;

 private:
  struct Request {
    int warp, registers;
  };
  void check(int warp, int registers, const char* what);
  std::vector<int> grant();

  emulator::Workgroup& group_;
  std::vector<int> per_thread_;  // by warp
  std::vector<std::vector<int>> asked_;
  int free_ = 0;  // of one lane of each warp
  std::vector<Request> waiting_;
};

}  // namespace attnfuse::cuda
