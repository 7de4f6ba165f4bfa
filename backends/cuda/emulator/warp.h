// The 32 lanes of a warp at operations that all of them execute together.
#pragma once

#include <vector>

#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/shared_memory.h"
#include "backends/emulator/workgroup.h"

namespace attnfuse::cuda {

inline constexpr int kWarp = 32;

class Warps {
 public:
  explicit Warps(emulator::Workgroup& group) : group_(group) {}

  void begin();
  // One more lane is there. True: it was the last of its warp. "emulator.diverged": others are elsewhere.
  bool arrive(int lane);
  void ended(int lane) const;  // the same, when others wait for it
  void resume(int warp);       // all its lanes go on
  std::string place(int lane) const;

 private:
  [[noreturn]] void diverged(int lane, int other) const;

  emulator::Workgroup& group_;
  std::vector<std::vector<int>> waiting_;  // by warp
};

// Performs an operation of the 32 lanes from `first` on.
void exchange(emulator::Workgroup& group, int first);
void move_matrices(emulator::Workgroup& group, SharedMemory& shared, int first);
void multiply(emulator::Workgroup& group, int first);

}  // namespace attnfuse::cuda
