// The running lane as compiled kernels see it. host_text.cpp repeats the struct as text.
#pragma once

#include <cstddef>
#include <span>

namespace attnfuse::emulator {

struct LaneState {
  unsigned thread = 0, threads = 1;
  unsigned workgroup[3] = {}, grid[3] = {1, 1, 1};
  // Hands the lane to the machine; returns when it may go on, with the result written.
  void (*call)(int operation, int immediate, const void* operands, void* result) = nullptr;
};

// What a lane asked for. The numbers and the operands' types are each machine's own.
struct Call {
  int operation = 0, immediate = 0;
  const void* operands = nullptr;
  void* result = nullptr;
};

// A compiled kernel, as loaded from its shared object.
struct HostKernel {
  void (*entry)(const void* params) = nullptr;
  LaneState* state = nullptr;
  std::span<std::byte> shared;  // room of all shared variables: whole pages, then one that faults
};

}  // namespace attnfuse::emulator
