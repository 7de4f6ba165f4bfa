// A small legal program for tests, with places to put an expression in.
#pragma once

#include <functional>

#include "ir/graph.h"

namespace attnfuse {

struct TestProgram {
  ProgramInfo info{"small", 4, 2, 64, 64, DType::f16, {"spec.attn", 1, 11, 5}};
  std::vector<TensorInfo> captured;  // the first one is tensor 3
  // Each takes the graph and the value so far (the score for a mask and a sink); null keeps the default.
  using Expression = std::function<NodeId(Graph&, NodeId)>;
  Expression query, key, value, score, mask, sink;
  bool lse = true;

  Graph build() const;
};

// A place in the test's imaginary source.
inline Where at(int line, int column, int length = 1) { return {"spec.attn", line, column, length}; }

inline Graph TestProgram::build() const {
  const auto applied = [](const Expression& expression, Graph& graph, NodeId x) {
    return expression ? expression(graph, x) : x;
  };
  Graph graph(info);
  graph.add_tensor({"q",
                    info.dtype,
                    TensorRole::query,
                    {{Size::batch}, {Size::heads}, {Size::sq}, {Size::head_dim}},
                    {},
                    {},
                    {}});
  graph.add_tensor({"k",
                    info.dtype,
                    TensorRole::key,
                    {{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::head_dim}},
                    {},
                    {},
                    {}});
  graph.add_tensor({"v",
                    info.dtype,
                    TensorRole::value,
                    {{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::v_head_dim}},
                    {},
                    {},
                    {}});
  for (const TensorInfo& tensor : captured) graph.add_tensor(tensor);
  const NodeId q = applied(query, graph, graph.add(Input{{0}}));
  const NodeId k = applied(key, graph, graph.add(Input{{1}}));
  const NodeId x = graph.add(Scores{}, {q, k});
  const NodeId y = applied(score, graph, x);
  const NodeId m = mask ? mask(graph, x) : graph.constant(1, ValueType::boolean);
  std::vector<NodeId> operands{y, m};
  if (sink) operands.push_back(sink(graph, x));
  const NodeId p =
      graph.add(Normalize{sink ? NormalizeKind::softmax_sink : NormalizeKind::softmax}, operands);
  const NodeId v = applied(value, graph, graph.add(Input{{2}}));
  graph.add(Output{"o"}, {graph.add(Attend{}, {p, v})});
  if (lse) graph.add(Output{"lse"}, {graph.add(LogSumExp{}, {p})});
  return graph;
}

}  // namespace attnfuse
