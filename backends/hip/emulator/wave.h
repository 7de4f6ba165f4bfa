// Waves and workgroups on the CPU: one fiber per lane. Lanes of a wave meet at every cross-lane operation,
// matrix operation and barrier; waves meet at workgroup barriers. Between two meetings lanes run one after
// the other, so that a missing barrier shows under some order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/hip/emulator/operation.h"
#include "ir/diagnostic.h"

namespace attnfuse::hip {

enum class WaveOrder : std::uint8_t {
  forward,
  reverse,
  random,
  mixed,  // by workgroup: forward, reverse, random in turn
};

// What the emulated machine is, beyond the code it runs.
struct Machine {
  int wave_size = 64;
  bool flushes_denormals = false;  // matrix operands (gfx90a)
};

// The compiled kernel, as loaded from a shared object.
struct HostKernel {
  void (*entry)(const void* params) = nullptr;
  LaneState* state = nullptr;   // what the builtins of the running lane read
  std::span<std::byte> shared;  // all shared variables
};

struct Grid {
  std::uint32_t workgroups[3] = {1, 1, 1};
  int threads = 1;
};

// Runs every workgroup. Diagnostics: "emulator.diverged", "emulator.fault", "emulator.operand".
Status run_grid(const HostKernel& kernel, const Machine& machine, const Grid& grid, WaveOrder order,
                std::uint64_t seed, const void* params);

}  // namespace attnfuse::hip
