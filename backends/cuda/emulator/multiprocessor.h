// NVIDIA's rules for threads: who meets whom at warp operations, barriers and matrix products, and what
// copies and products do in the background. Diagnostics: see the parts.
#pragma once

#include "backends/emulator/workgroup.h"
#include "runtime/device.h"

namespace attnfuse::cuda {

std::unique_ptr<emulator::Machine> make_multiprocessor(emulator::Workgroup& group, const Target& target,
                                                       const Launch& launch);

}  // namespace attnfuse::cuda
