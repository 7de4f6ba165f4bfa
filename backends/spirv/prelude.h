// Functions at the head of every GLSL kernel: loads and stores by address, conversions, f32 functions with
// defined behaviour at the edges. GLSL leaves infinities and NaN to the implementation: tests look at bits.
#pragma once

#include <string_view>

namespace attnfuse::spirv {
std::string_view prelude_types();  // before the common prelude
std::string_view prelude();        // after it
}  // namespace attnfuse::spirv
