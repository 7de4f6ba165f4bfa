#include "passes/split_backward.h"

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

bool is_dq(const Node& node) {
  const auto* contract = as<Contract>(node);
  return contract && contract->over == Axis::j;
}

bool is_row_tensor(const Graph& graph, const Node& node) {
  const auto* input = as<Input>(node);
  if (!input) return false;
  const TensorRole role = graph.tensor(input->tensor).role;
  return role == TensorRole::saved || role == TensorRole::upstream;
}

void add_once(std::vector<NodeId>& to, NodeId id) {
  if (std::ranges::find(to, id) == to.end()) to.push_back(id);
}

}  // namespace

std::string_view name(BackwardPart part) {
  switch (part) {
    case BackwardPart::shared:
      return "shared";
    case BackwardPart::preprocess:
      return "preprocess";
    case BackwardPart::main:
      return "main";
    case BackwardPart::postprocess:
      return "postprocess";
  }
  return "";
}

BackwardPart BackwardParts::of(const Graph& gradient, NodeId id) {
  for (auto v = std::uint32_t(parts_.size()); v <= id.value; ++v) {
    const Node& node = gradient.node({v});
    bool reads_rows = is_row_tensor(gradient, node);
    BackwardPart part = BackwardPart::shared;
    for (NodeId operand : gradient.operands({v})) {
      reads_rows = reads_rows || reads_rows_[operand.value];
      part =
          std::max(part, is_dq(gradient.node(operand)) ? BackwardPart::postprocess : parts_[operand.value]);
    }
    const bool is_tensor = as<Input>(node) != nullptr;  // in memory for everyone
    const auto* sum = as<SumOver>(node);
    const auto* scatter = as<Scatter>(node);
    const Axes over = sum ? sum->over : scatter ? scatter->over : node.axes;
    const bool has_pairs = as<Scores>(node) || as<Contract>(node) || over.has(Axis::j);
    if (as<Scores>(node) || (reads_rows && has_pairs && !is_tensor))
      part = std::max(part, BackwardPart::main);
    if (reads_rows && !is_tensor) part = std::max(part, BackwardPart::preprocess);
    parts_.push_back(part);
    reads_rows_.push_back(reads_rows);
  }
  return parts_[id.value];
}

BackwardSplit split_backward(const Graph& gradient) {
  BackwardSplit split;
  split.parts.assign(gradient.size(), BackwardPart::shared);
  BackwardParts parts;
  for (NodeId id : cone(gradient, gradient.outputs())) {
    const BackwardPart part = split.parts[id.value] = parts.of(gradient, id);
    for (NodeId operand : gradient.operands(id)) {
      const BackwardPart from = split.parts[operand.value];
      if (as<Scatter>(gradient.node(operand)) || from == part) continue;
      if (from == BackwardPart::preprocess) add_once(split.rows, operand);
      if (from == BackwardPart::main && part == BackwardPart::postprocess) add_once(split.dq, operand);
    }
  }
  return split;
}

}  // namespace attnfuse
