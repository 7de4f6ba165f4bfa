// Gradient graphs: what differentiate() makes of a program, and what backward kernels are lowered from.
//
// They are graphs over the program's tensors and two more groups, at the axes of query rows:
//   saved     what the forward pass leaves: o (the product with the values, before output expressions), lse
//   of a
//             softmax, row_sum of retention (the sum of the scores), max_key of programs with max_logit (i32:
//             the first key whose score is the largest, -1 where a sink is as large or no key is allowed)
//   upstream  do, dlse, dmax_logit: gradients of the outputs
// Outputs are dq, dk, dv and d<name> of every captured tensor marked `grad`. The first three have the axes of
// their tensors; the others take any number of Scatter, whose sum they are.
//
// A softmax looks like this (llama3, abbreviated):
//   s  = scores(q', k')             y = score expression of s, m = mask, p = exp(y - lse)      recomputed
//   dp = scores(do, v')             delta = sum over d of do * o, minus dlse
//   dy = p * (dp - delta)           ds = the score expression's adjoint of dy
//   dq' = contract j (ds, k', m)    dk' = contract i (ds, q', m)    dv' = contract i (p, do, m)
//   dq, dk, dv = the transforms' adjoints of dq', dk', dv'
// Pairs (i, j) are only ever summed under the mask, so that p and ds may be anything where it is false.
#pragma once

#include <string>

#include "ir/graph.h"

namespace attnfuse {

bool is_gradient(const Graph& graph);

// The output that holds a tensor's gradient, and the upstream tensor that holds an output's.
std::string gradient_name(std::string_view name);

// How long d is for a value that depends on it, from the tensors that it reads: v_head_dim for the values, o
// and their gradients, head_dim for queries and keys, and what depends on the index d alone.
Size row_size(const Graph& graph, NodeId id);

}  // namespace attnfuse
