#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/storage.h"
#include "ir/text.h"

namespace attnfuse {
namespace {

constexpr std::string_view kRoleNames[] = {"query",    "key",   "value",   "captured",
                                           "constant", "saved", "upstream"};

std::string tensor_line(const TensorInfo& tensor) {
  std::string shape;
  for (const Extent& extent : tensor.shape) shape += (shape.empty() ? "" : ", ") + to_string(extent);
  return fmt::format("{} {} : {} [{}]{}\n", kRoleNames[std::size_t(tensor.role)], tensor.name,
                     name(tensor.dtype), shape, tensor.grad ? " grad" : "");
}

}  // namespace

std::string print(const Graph& graph) {
  const ProgramInfo& info = graph.info();
  std::string text =
      fmt::format("attention {} heads {} kv_heads {} head_dim {} v_head_dim {} dtype {}\n", info.name,
                  info.heads, info.kv_heads, info.head_dim, info.v_head_dim, name(info.dtype));
  if (info.score_heads != 1) text += fmt::format("score_heads {}\n", info.score_heads);
  if (!info.storage.is_plain()) text += fmt::format("storage {}\n", to_string(info.storage));
  for (const TensorInfo& tensor : graph.tensors()) text += tensor_line(tensor);
  for (NodeId id : execution_order(graph)) {
    const Node& node = graph.node(id);
    text += fmt::format("%{} = {}", id.value, label(graph, id));
    for (NodeId operand : graph.operands(id)) text += fmt::format(" %{}", operand.value);
    text += fmt::format(" : {} {}\n", name(node.type), to_string(node.axes));
  }
  return text;
}

}  // namespace attnfuse
