#include "ir/algorithm.h"
#include "passes/transform.h"

#include <algorithm>

namespace attnfuse {

std::string_view name(TensorRole role) {
  switch (role) {
    case TensorRole::query:
      return "query";
    case TensorRole::key:
      return "key";
    case TensorRole::value:
      return "value";
    case TensorRole::captured:
      return "captured";
    case TensorRole::constant:
      return "constant";
    case TensorRole::saved:
      return "saved";
    case TensorRole::upstream:
      return "upstream";
  }
  return "";
}

TensorId tensor_of(const Graph& graph, TensorRole role) {
  for (std::uint32_t t = 0; t < graph.tensors().size(); ++t)
    if (graph.tensor({t}).role == role) return {t};
  ATTNFUSE_CHECK(false, "a program without " + std::string(name(role)));
}

NodeId transform_of(const Graph& graph, TensorRole role) {
  switch (role) {
    case TensorRole::query:
      return graph.operand(find<Scores>(graph), 0);
    case TensorRole::key:
      return graph.operand(find<Scores>(graph), 1);
    case TensorRole::value:
      return graph.operand(find<Attend>(graph), 1);
    case TensorRole::captured:
    case TensorRole::constant:
    case TensorRole::saved:
    case TensorRole::upstream:
      break;
  }
  ATTNFUSE_CHECK(false, "only query, key and value are transformed");
}

bool has_transform(const Graph& graph, TensorRole role) {
  return as<Input>(graph.node(transform_of(graph, role))) == nullptr;
}

Graph split_transform(const Graph& graph, std::span<const TensorRole> roles) {
  const auto input = [&](Graph& to, TensorRole role, NodeId transformed) {
    const bool split = std::ranges::find(roles, role) != roles.end();
    return split ? to.add(Input{tensor_of(graph, role)}) : transformed;
  };
  const Graph split =
      rewrite_live(graph, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> x) -> NodeId {
        const Node& node = from.node(id);
        if (as<Scores>(node))
          return to.add(node.kind, {input(to, TensorRole::query, x[0]), input(to, TensorRole::key, x[1])},
                        node.where);
        if (as<Attend>(node))
          return to.add(node.kind, {x[0], input(to, TensorRole::value, x[1])}, node.where);
        return {};
      });
  Result<Graph> clean = remove_dead(split);
  ATTNFUSE_CHECK(clean, "nothing can fail here");
  return std::move(clean).value();
}

}  // namespace attnfuse
