// The CPU executor of emitted HIP source: the text is compiled for this machine and run with one fiber per
// lane. It checks what a GPU does not: every access stays inside its buffer, shared memory is written before
// it is read (it starts as NaN), waves meet where they must, and any order of waves gives the same answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/hip/emulator/wave.h"
#include "runtime/device.h"

namespace attnfuse::hip {

// Compiles with clang for this machine. Diagnostics: "toolkit.missing", "assemble.failed".
Result<Binary> compile_for_host(const std::string& source, const std::string& entry, const Target& target);

struct EmulatorOptions {
  WaveOrder order = WaveOrder::mixed;
  std::uint64_t seed = 1;
};
// `targets`: what it pretends to be, best first.
std::shared_ptr<Device> make_emulator(std::vector<Target> targets, EmulatorOptions options = {});

}  // namespace attnfuse::hip
