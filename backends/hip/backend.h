// The HIP backend: C++ on compiler builtins, assembled by hiprtc or clang, run through the HIP runtime.
#pragma once

#include "backends/backend.h"

namespace attnfuse::hip {
const Backend& backend();
// "hip-cpu": the same text, compiled for this machine and run by the emulator.
const Backend& emulated_backend();
}  // namespace attnfuse::hip
