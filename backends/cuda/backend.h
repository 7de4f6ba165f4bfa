// The CUDA backend: C++ with inline PTX, assembled by NVRTC, run through the driver API.
#pragma once

#include "backends/backend.h"

namespace attnfuse::cuda {
const Backend& backend();
}
