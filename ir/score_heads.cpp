#include "ir/score_heads.h"

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

template <class Kind>
NodeId first_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  const auto found =
      std::ranges::find_if(nodes, [&](NodeId id) { return as<Kind>(graph.node(id)) != nullptr; });
  return found == nodes.end() ? NodeId{} : *found;
}

// The part of an expression itself, or what lies below it.
template <class Kind>
NodeId below(const Graph& graph, NodeId root) {
  const NodeId own = first_of<Kind>(graph, elementwise_cone(graph, {root}));
  return own.valid() ? own : first_of<Kind>(graph, cone(graph, {root}));
}

TensorId input_of(const Graph& graph, NodeId root) {
  const NodeId input = first_of<Input>(graph, cone(graph, {root}));
  return input.valid() ? as<Input>(graph.node(input))->tensor : TensorId{};
}

}  // namespace

std::vector<ScoreHead> score_heads(const Graph& graph) {
  std::vector<ScoreHead> heads;
  for (NodeId id : cone(graph, graph.outputs())) {
    if (as<Attend>(graph.node(id)) == nullptr) continue;
    ScoreHead head;
    head.attend = id;
    head.normalize = below<Normalize>(graph, graph.operand(id, 0));
    if (head.normalize.valid()) head.scores = below<Scores>(graph, graph.operand(head.normalize, 0));
    if (head.scores.valid()) {
      head.query = input_of(graph, graph.operand(head.scores, 0));
      head.key = input_of(graph, graph.operand(head.scores, 1));
    }
    heads.push_back(head);
  }
  std::ranges::sort(heads, {}, [](const ScoreHead& head) { return std::pair(head.query, head.attend); });
  return heads;
}

}  // namespace attnfuse
