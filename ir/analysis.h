// What can be said about a graph without running a kernel: legality, text, pictures, values, ranges.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// Every rule a program must obey; an empty list means that lowering and emission succeed. Of a gradient
// graph: that it is one (ir/gradient.h).
Diagnostics verify(const Graph& graph);

// One line per node: "%7 = mul %3 %6 : f32 {b,h,i,j}".
std::string print(const Graph& graph);

// Graphviz text, coloured by where each value is computed.
std::string dot(const Graph& graph);

// LaTeX of one value; leaves print as their names.
std::string latex(const Graph& graph, NodeId root);

// Infix text of one value in the .attn expression language; `x` names the value so far.
std::string expression_text(const Graph& graph, NodeId root, NodeId x = {});

// Where an elementwise expression is evaluated: positions, sizes, and what leaves read. Sizes that are
// compiled in come from graph.info(); batch, sq and skv from here.
struct EvaluateContext {
  std::int64_t index[6] = {};  // by Axis
  std::int64_t sizes[7] = {};  // by Size
  // Values of nodes that are not elementwise (inputs, partners, scores, variables): supplied by the caller.
  std::function<double(NodeId)> leaf;
  // Element of a captured tensor at indices clamped to its shape; not called when the tensor is empty (0).
  std::function<double(TensorId, std::span<const std::int64_t>)> element;
};
double evaluate(const Graph& graph, NodeId root, const EvaluateContext& context);

// The same for many positions: the expressions flattened to a list of steps. The graph must outlive it; one
// evaluator serves one thread.
class Evaluator {
 public:
  Evaluator(const Graph& graph, const std::vector<NodeId>& roots);
  // Value of the first root; value(k) is that of root k at the same place.
  double operator()(const EvaluateContext& context);
  double value(std::size_t root) const { return values_[roots_[root]]; }

 private:
  struct Step {
    const Node* node;
    NodeId id;
    std::size_t first = 0, count = 0;  // operands: slots_[first ...)
  };
  double run(const Step& step, const EvaluateContext& context);
  double gather(TensorId tensor, std::span<const std::size_t> indices, const EvaluateContext& context);

  const Graph* graph_;
  std::vector<Step> steps_;
  std::vector<std::size_t> slots_, roots_;  // positions in values_
  std::vector<double> values_;              // by step
  std::vector<std::int64_t> index_;
};

// Range of an elementwise expression when indices and sizes range. Unknown leaves are everything(), booleans
// truth(). Sizes that are compiled in come from graph.info().
struct IntervalContext {
  Interval index[6];
  Interval sizes[7];
};
Interval interval_of(const Graph& graph, NodeId root, const IntervalContext& context);

}  // namespace attnfuse
