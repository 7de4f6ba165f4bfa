// Barriers without memory: __syncthreads, which ended threads do not hold up, and the named ones, which
// count.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/emulator/workgroup.h"

namespace attnfuse::cuda {

class Meetings {
 public:
  static constexpr int kNamed = 16;  // number 0 is __syncthreads

  explicit Meetings(emulator::Workgroup& group) : group_(group) {}

  void begin();
  void sync_threads(int lane);
  void ended();
  // `waits`: until `threads` have come; else it only comes and goes on.
  void named(int lane, const std::uint64_t* operands, bool waits);
  std::string place_in_threads() const;
  std::string place_in_named(int lane) const;

 private:
  struct Named {
    int threads = 0;
    std::vector<int> came, waiting;
  };
  void open_threads();
  void open(int id, Named& barrier);

  emulator::Workgroup& group_;
  std::vector<int> at_threads_;
  int ended_ = 0;
  std::array<Named, kNamed> named_;
};

}  // namespace attnfuse::cuda
