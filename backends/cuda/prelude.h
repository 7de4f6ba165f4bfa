// Device functions at the head of every CUDA kernel: conversions, asynchronous copies, matrix fragments.
#pragma once

#include <string_view>

namespace attnfuse::cuda {
std::string_view prelude_types();  // before the common prelude
std::string_view prelude();        // after it
}  // namespace attnfuse::cuda
