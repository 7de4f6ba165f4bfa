// The SPIR-V backend: GLSL compute text, assembled by glslang in process, run on any Vulkan device.
#pragma once

#include "backends/backend.h"

namespace attnfuse::spirv {
const Backend& backend();
}
