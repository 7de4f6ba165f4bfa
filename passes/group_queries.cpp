#include "passes/group_queries.h"

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

// The same shapes where heads and query rows are other things.
TensorInfo keep_shape(TensorInfo tensor, const ProgramInfo& info) {
  if (tensor.role != TensorRole::captured) return tensor;
  for (Extent& extent : tensor.shape) {
    if (extent == Extent{Size::heads}) extent = Extent{std::int64_t(info.heads)};
    if (extent == Extent{Size::sq}) extent = Extent{std::int64_t(1)};
  }
  return tensor;
}

}  // namespace

bool has_query_groups(const Graph& graph) { return graph.info().heads > graph.info().kv_heads; }

Graph group_queries(const Graph& graph) {
  ProgramInfo info = graph.info();
  const int group = info.heads / info.kv_heads;
  info.name += "_grouped";
  info.heads = info.kv_heads;
  Graph to(info);
  for (const TensorInfo& tensor : graph.tensors()) to.add_tensor(keep_shape(tensor, graph.info()));
  const auto i32 = [&](int value) { return to.constant(value, ValueType::i32); };
  const auto replacement = [&](const Node& node) -> NodeId {
    if (const auto* size = as<SizeOf>(node)) {
      if (size->size == Size::sq) return i32(1);
      if (size->size == Size::heads) return i32(graph.info().heads);
    }
    if (const auto* index = as<Index>(node)) {
      if (index->axis == Axis::i) return i32(0);
      if (index->axis == Axis::h)
        return to.apply(ScalarOp::iadd,
                        {to.apply(ScalarOp::imul, {to.index(Axis::h), i32(group)}), to.index(Axis::i)});
    }
    return {};
  };
  std::vector<NodeId> map(graph.size());
  for (NodeId id : cone(graph, graph.outputs())) {
    std::vector<NodeId> operands = graph.operands(id);
    for (NodeId& operand : operands) operand = map[operand.value];
    const Node& node = graph.node(id);
    NodeId& mapped = map[id.value];
    mapped = replacement(node);
    if (!mapped.valid())
      mapped = operands.empty() ? to.add_like(node, operands) : to.add(node.kind, operands, node.where);
  }
  return to;
}

}  // namespace attnfuse
