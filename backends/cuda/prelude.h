// Device functions at the head of every CUDA kernel: conversions, asynchronous copies, matrix fragments.
#pragma once

#include <string>
#include <string_view>

#include "ir/tile.h"

namespace attnfuse::cuda {
std::string_view prelude_types();                 // before the common prelude
std::string prelude(const TileProgram& program);  // after it
// Every tanh is a score as it is, or times a small constant: an absolute error is one there.
bool takes_absolute_errors(const Graph& graph);
// What programs with roles call beyond that, sm_90a: mbarriers, bulk tensor copies, wgmma of the shapes that
// the program's products have.
std::string hopper_prelude(const TileProgram& program);

}  // namespace attnfuse::cuda
