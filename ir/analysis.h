// What can be said about a graph without running a kernel: legality, text, pictures, values, ranges.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// Every rule a program must obey; an empty list means that lowering and emission succeed.
Diagnostics verify(const Graph& graph);

// One line per node: "%7 = mul %3 %6 : f32 {b,h,i,j}".
std::string print(const Graph& graph);

// Graphviz text, coloured by where each value is computed.
std::string dot(const Graph& graph);

// LaTeX of one value; leaves print as their names.
std::string latex(const Graph& graph, NodeId root);

// Infix text of one value in the .attn expression language; `x` names the value so far.
std::string expression_text(const Graph& graph, NodeId root, NodeId x = {});

// Where an elementwise expression is evaluated: positions, sizes, and what leaves read.
struct EvaluateContext {
  std::int64_t index[6] = {};  // by Axis
  std::int64_t sizes[7] = {};  // by Size
  // Values of nodes that are not elementwise (inputs, scores): supplied by the caller.
  std::function<double(NodeId)> leaf;
  // Element of a captured tensor at clamped indices.
  std::function<double(TensorId, std::span<const std::int64_t>)> element;
};
double evaluate(const Graph& graph, NodeId root, const EvaluateContext& context);

// Range of an elementwise expression when indices and sizes range. Unknown leaves are everything().
struct IntervalContext {
  Interval index[6];
  Interval sizes[7];
};
Interval interval_of(const Graph& graph, NodeId root, const IntervalContext& context);

}  // namespace attnfuse
