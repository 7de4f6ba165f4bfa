// The CPU executor of emitted CUDA source: the text is compiled for this machine with its inline PTX
// replaced, and run with one fiber per thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/emulator/policy.h"
#include "runtime/device.h"

namespace attnfuse::cuda {

// Compiles with clang for this machine. Diagnostics: "toolkit.missing", "assemble.failed".
Result<Binary> compile_for_host(const std::string& source, const std::string& entry, const Target& target);

// What "cuda-cpu" pretends to be: NVIDIA's machines under that name, with few multiprocessors.
std::vector<Target> emulated_targets(const std::string& backend = "cuda-cpu");

// `targets`: what it pretends to be, best first.
std::shared_ptr<Device> make_emulator(std::vector<Target> targets, emulator::Options options = {});

}  // namespace attnfuse::cuda
