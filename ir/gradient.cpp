#include "ir/gradient.h"

#include <algorithm>

namespace attnfuse {

bool is_gradient(const Graph& graph) {
  return std::ranges::any_of(graph.tensors(),
                             [](const TensorInfo& tensor) { return tensor.role == TensorRole::upstream; });
}

std::string gradient_name(std::string_view name) { return "d" + std::string(name); }

Size row_size(const Graph& graph, NodeId id) {
  std::vector<NodeId> pending{id};
  std::vector<bool> seen(graph.size());
  while (!pending.empty()) {
    const NodeId next = pending.back();
    pending.pop_back();
    const Node& node = graph.node(next);
    if (seen[next.value] || !node.axes.has(Axis::d)) continue;
    seen[next.value] = true;
    if (const auto* input = as<Input>(node)) {
      const std::vector<Extent>& shape = graph.tensor(input->tensor).shape;
      const Size* size = shape.empty() ? nullptr : std::get_if<Size>(&shape.back().value);
      return size ? *size : Size::head_dim;
    }
    if (as<Attend>(node)) return Size::v_head_dim;
    if (as<Contract>(node)) {  // of these rows
      pending = {graph.operand(next, 1)};
      continue;
    }
    for (NodeId operand : graph.operands(next)) pending.push_back(operand);
  }
  return Size::head_dim;
}

}  // namespace attnfuse
