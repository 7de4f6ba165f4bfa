// Interval and gradient rules of the scalar-op table, one function per row that needs one. Only scalar_op.cpp
// uses them; see ScalarOpInfo for their contracts.
#pragma once

#include "ir/graph.h"
#include "ir/scalar_op.h"

namespace attnfuse {

using Ranges = std::span<const Interval>;

namespace range {
Interval add(Ranges x), sub(Ranges x), mul(Ranges x), div(Ranges x), neg(Ranges x), abs(Ranges x),
    min(Ranges x), max(Ranges x), floor(Ranges x), exp(Ranges x), exp2(Ranges x), log(Ranges x),
    log2(Ranges x), sqrt(Ranges x), rsqrt(Ranges x), tanh(Ranges x), sin(Ranges x), cos(Ranges x);
Interval iadd(Ranges x), isub(Ranges x), imul(Ranges x), idiv(Ranges x), imod(Ranges x), imin(Ranges x),
    imax(Ranges x);
Interval bit_and(Ranges x), bit_or(Ranges x), bit_xor(Ranges x), bit_not(Ranges x), shift_left(Ranges x),
    shift_right(Ranges x);
Interval philox(Ranges x);
Interval lt(Ranges x), le(Ranges x), gt(Ranges x), ge(Ranges x), eq(Ranges x), ne(Ranges x);
Interval ilt(Ranges x), ile(Ranges x), igt(Ranges x), ige(Ranges x);
Interval logical_and(Ranges x), logical_or(Ranges x), logical_not(Ranges x);
Interval select(Ranges x), to_i32(Ranges x), same(Ranges x), truth(Ranges x);
}  // namespace range

using Operands = std::span<const NodeId>;
using Gradients = std::vector<NodeId>;

namespace vjp {
// Comparisons and roundings: piecewise constant.
Gradients zero(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients add(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients sub(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients mul(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients div(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients neg(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients abs(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients min(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients max(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients exp(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients exp2(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients log(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients log2(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients sqrt(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients rsqrt(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients tanh(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients sin(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients cos(Graph& graph, Operands x, NodeId result, NodeId grad);
Gradients select(Graph& graph, Operands x, NodeId result, NodeId grad);
}  // namespace vjp

}  // namespace attnfuse
