// The part of every backend's prelude that is plain C-like arithmetic. Before it, a backend defines
//   AF_FN            qualifiers of a function
//   af_u32, af_i64   types
//   af_bits, af_from_bits, af_fma, af_rint   float <-> bits, fused multiply-add, round to nearest integer
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace attnfuse {
std::string_view common_prelude();
// What the expressions need beside it. `roll`: line before a loop that is not to be unrolled.
std::string prelude_of(const Graph& expressions, const std::string& roll);
// tanh from a backend's af_exp2 and af_abs, for languages without an accurate one; after its prelude.
std::string_view tanh_prelude();
}  // namespace attnfuse
