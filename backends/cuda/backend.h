// The CUDA backend: C++ with inline PTX, assembled by NVRTC, run through the driver API. "cuda-cpu": the same
// text, compiled for this machine and run by the emulator.
#pragma once

#include "backends/backend.h"

namespace attnfuse::cuda {
const Backend& backend();
const Backend& emulated_backend();
}  // namespace attnfuse::cuda
