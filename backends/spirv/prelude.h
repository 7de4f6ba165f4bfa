// GLSL functions at the head of every compute shader.
#pragma once

#include <string_view>

namespace attnfuse::spirv {
std::string_view prelude_types();  // extensions, buffer references; before the common prelude
std::string_view prelude();        // after it
}  // namespace attnfuse::spirv
