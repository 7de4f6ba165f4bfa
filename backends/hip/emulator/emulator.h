// The CPU executor of emitted HIP source: the text is compiled for this machine with the builtins it may
// call, and run with one fiber per lane.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/emulator/policy.h"
#include "runtime/device.h"

namespace attnfuse::hip {

// Compiles with clang for this machine. Diagnostics: "toolkit.missing", "assemble.failed".
Result<Binary> compile_for_host(const std::string& source, const std::string& entry, const Target& target);

// `targets`: what it pretends to be, best first.
std::shared_ptr<Device> make_emulator(std::vector<Target> targets, emulator::Options options = {});

}  // namespace attnfuse::hip
