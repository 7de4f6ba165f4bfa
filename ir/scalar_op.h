// The scalar-op table: everything the compiler knows about an elementwise operation, in one row.
// Adding an op = one row here and one enumerator; a test walks the table (value against the finite
// difference of vjp, value inside range on random intervals).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/interval.h"
#include "ir/types.h"

namespace attnfuse {

class Graph;
struct NodeId;

// clang-format off: grouped by operand type
enum class ScalarOp : std::uint8_t {
  // f32 arithmetic
  add, sub, mul, div, neg, abs, min, max, floor,
  exp, exp2, log, log2, sqrt, rsqrt, tanh, sin, cos,
  // i32 arithmetic; idiv and imod round toward minus infinity (Python's // and %)
  iadd, isub, imul, idiv, imod, ineg, imin, imax,
  // bits of an i32, as two's complement; shifts move by the amount modulo 32, right ones keep the sign
  bit_and, bit_or, bit_xor, bit_not, shift_left, shift_right,
  // random numbers: (seed, n, i, j) -> f32, even in [0, 1): 24 bits of word j % 4 of Philox4x32-10 at counter
  // (j // 4, i, n, 0) with key (seed, 0)
  philox,
  // comparisons -> boolean
  lt, le, gt, ge, eq, ne,        // f32
  ilt, ile, igt, ige, ieq, ine,  // i32
  // boolean
  logical_and, logical_or, logical_not,
  // choice: select(condition, if_true, if_false)
  select,   // f32
  iselect,  // i32
  // conversions
  to_f32,  // i32 -> f32
  to_i32,  // f32 -> i32, rounds toward minus infinity, saturates; NaN gives 0 here and any number on a device
  bool_to_f32,
};
// clang-format on

// How C-like text binds an operator; higher binds tighter.
enum class Precedence : std::uint8_t {
  ternary,
  logical_or,
  logical_and,
  equality,
  relational,
  additive,
  multiplicative,
  unary,
  primary
};

inline constexpr int kMaxArity = 4;

struct ScalarOpInfo {
  ScalarOp op;
  std::string_view name;  // as printed in graphs and accepted by the parser where it is a function
  int arity;
  ValueType operand[kMaxArity];
  ValueType result;
  // Value in double precision; i32 operands arrive as exact integers, booleans as 0 or 1. i32 results are
  // taken to fit. idiv and imod by zero are 0 here and anything on a device.
  double (*value)(std::span<const double> x);
  // Sound (never too small) range of the value when operands lie in the given intervals.
  Interval (*range)(std::span<const Interval> x);
  // Gradient with respect to each operand, given the operands, the result and the result's gradient,
  // built into `graph`. Entries for non-f32 operands are invalid ids. Null for ops without f32 operands.
  std::vector<NodeId> (*vjp)(Graph& graph, std::span<const NodeId> x, NodeId result, NodeId grad);
  // C-like spelling with $0 $1 $2 $3; functions named af_* come from each backend's prelude, so that one
  // spelling serves CUDA C++, HIP C++, GLSL and plain C++.
  std::string_view spelling;
  Precedence precedence;
  // LaTeX with $0 $1 $2 $3. A placeholder in braces or parentheses is delimited; others are operands of the
  // precedence above.
  std::string_view latex;
};

std::span<const ScalarOpInfo> scalar_ops();  // in enumerator order
const ScalarOpInfo& info(ScalarOp op);

}  // namespace attnfuse
