// Spec -> Graph: names get meaning, blocks become their expressions, constants fold.
//
// In expressions x is the value so far; b, h, i, j, d are indices from 0; batch, sq, skv, heads, kv_heads,
// head_dim, v_head_dim are sizes; a captured tensor t is read by t[...] with clamped i32 indices. In key and
// value lines h is the key/value head. Where i32 meets f32 the result is f32; / is f32, // and % are i32 and
// round toward minus infinity. sum(n in 0..4) adds what follows for n = 0, 1, 2, 3, written out: both ends
// are known at compile time; truth values count as 0 and 1.
#pragma once

#include "frontend/spec.h"

namespace attnfuse {

// All mistakes of the program, those of ir's verify() included, placed at the source that caused them.
Result<Graph> expand(const Spec& spec);

// Names that mean something in expressions and can therefore not name a tensor.
bool is_reserved_name(std::string_view name);

}  // namespace attnfuse
