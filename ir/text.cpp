#include "ir/text.h"

#include <fmt/format.h>

namespace attnfuse {
namespace {

// What a sum is over: "over {b,i,j}", "over {b,h,i,d} of v_head_dim".
std::string positions(Axes axes, Size row) {
  const std::string text = "over " + to_string(axes);
  return axes.has(Axis::d) ? fmt::format("{} of {}", text, name(row)) : text;
}

}  // namespace

std::string constant_text(double value, ValueType type) {
  switch (type) {
    case ValueType::boolean:
      return value != 0 ? "true" : "false";
    case ValueType::i32:
      return fmt::format("{:.0f}", value);
    case ValueType::f32:
      break;
  }
  const std::string text = fmt::format("{}", value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string to_string(const Extent& extent) {
  const Size* size = std::get_if<Size>(&extent.value);
  return size ? std::string(name(*size)) : fmt::format("{}", std::get<std::int64_t>(extent.value));
}

std::string label(const Partner& partner) {
  return fmt::format("partner {} {}", partner.pairs == RotaryPairs::half ? "half" : "interleaved",
                     partner.count);
}

std::string label(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return std::visit(
      overloaded{
          [&](const Input& input) { return "input " + graph.tensor(input.tensor).name; },
          [&](const Constant& constant) { return "constant " + constant_text(constant.value, node.type); },
          [](const SizeOf& size) { return fmt::format("size {}", name(size.size)); },
          [](const Index& index) { return fmt::format("index {}", name(index.axis)); },
          [](const Variable& variable) { return "variable " + variable.name; },
          [](const Apply& apply) { return std::string(info(apply.op).name); },
          [&](const Gather& gather) { return "gather " + graph.tensor(gather.tensor).name; },
          [](const Partner& partner) { return label(partner); },
          [](const Reduce& reduce) { return fmt::format("reduce {}", name(reduce.op)); },
          [](const Scores&) { return std::string("scores"); },
          [](const Normalize& normalize) {
            constexpr std::string_view kNames[] = {"softmax", "softmax_sink", "none", "retention"};
            return fmt::format("normalize {}", kNames[std::size_t(normalize.kind)]);
          },
          [](const Attend&) { return std::string("attend"); },
          [](const LogSumExp&) { return std::string("logsumexp"); },
          [](const RowMax&) { return std::string("row max"); },
          [](const Output& output) { return "output " + output.name; },
          [](const Contract& contract) { return fmt::format("contract {}", name(contract.over)); },
          [](const SumOver& sum) { return "sum " + positions(sum.over, sum.row); },
          [&](const Scatter& scatter) {
            return fmt::format("scatter {} {}", graph.tensor(scatter.tensor).name,
                               positions(scatter.over, scatter.row));
          },
      },
      node.kind);
}

std::string substituted(std::string_view spelling, const std::vector<std::string>& operands) {
  std::string text;
  for (std::size_t k = 0; k < spelling.size(); ++k) {
    if (spelling[k] == '$' && k + 1 < spelling.size())
      text += operands.at(std::size_t(spelling[++k] - '0'));
    else
      text += spelling[k];
  }
  return text;
}

}  // namespace attnfuse
