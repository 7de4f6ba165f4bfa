// Device functions at the head of every HIP kernel. Only compiler builtins: no HIP headers, no device
// library.
#pragma once

#include <string>
#include <string_view>

#include "ir/target.h"

namespace attnfuse::hip {
std::string_view prelude_types();  // before the common prelude
std::string_view prelude();        // after it
// The matrix instruction of a unit as af_mma_f16 and af_mma_bf16 on operands of packed pairs.
std::string matrix_prelude(const MatrixUnit& unit);
}  // namespace attnfuse::hip
