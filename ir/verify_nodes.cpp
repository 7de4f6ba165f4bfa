#include <cfloat>
#include <cmath>

#include "ir/gradient.h"
#include "ir/verify_rules.h"

namespace attnfuse {
namespace {

int wanted_operands(const Graph& graph, const Node& node) {
  return std::visit(
      overloaded{
          [](const Input&) { return 0; },
          [](const Constant&) { return 0; },
          [](const SizeOf&) { return 0; },
          [](const Index&) { return 0; },
          [](const Variable&) { return 0; },
          [](const Apply& apply) { return info(apply.op).arity; },
          [&](const Gather& gather) { return int(graph.tensor(gather.tensor).shape.size()); },
          [](const Partner&) { return 1; },
          [](const Reduce&) { return 1; },
          [](const Scores&) { return 2; },
          [](const Normalize& normalize) { return normalize.kind == NormalizeKind::softmax_sink ? 3 : 2; },
          [](const Attend&) { return 2; },
          [](const LogSumExp&) { return 1; },
          [](const RowMax&) { return 1; },
          [](const Output&) { return 1; },
          [](const Contract&) { return 3; },
          [](const SumOver&) { return 2; },
          [&](const Scatter& scatter) { return int(graph.tensor(scatter.tensor).shape.size()) + 2; },
      },
      node.kind);
}

void check_operand_types(Report& report, NodeId id, const ScalarOpInfo& op) {
  const std::vector<NodeId> operands = report.graph.operands(id);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const ValueType type = report.graph.node(operands[k]).type;
    if (type == op.operand[k]) continue;
    report.add(
        "expression.type",
        fmt::format("operand {} of {} is {}; it must be {}", k + 1, op.name, name(type), name(op.operand[k])),
        report.graph.node(id).where);
  }
  const bool divides = op.op == ScalarOp::idiv || op.op == ScalarOp::imod;
  const Constant* divisor = divides ? as<Constant>(report.graph.node(operands[1])) : nullptr;
  if (divisor && divisor->value == 0)
    report.add("expression.division",
               fmt::format("{} by zero", op.op == ScalarOp::idiv ? "division" : "remainder"),
               report.graph.node(id).where);
}

void check_constant(Report& report, const Node& node, double value) {
  bool representable = false;
  switch (node.type) {
    case ValueType::f32:
      representable = std::fabs(value) <= FLT_MAX;
      break;
    case ValueType::i32:
      representable = value == std::floor(value) && value >= INT32_MIN && value <= INT32_MAX;
      break;
    case ValueType::boolean:
      representable = value == 0 || value == 1;
      break;
  }
  if (!representable)
    report.add("expression.constant", fmt::format("{} is not a finite {}", value, name(node.type)),
               node.where);
}

void check_gather(Report& report, NodeId id, const TensorInfo& tensor) {
  const Node& node = report.graph.node(id);
  if (tensor.role != TensorRole::captured && tensor.role != TensorRole::constant)
    report.add("gather.tensor",
               fmt::format("\"{}\" is not a captured tensor and cannot be indexed", tensor.name), node.where);
  const std::vector<NodeId> indices = report.graph.operands(id);
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const ValueType type = report.graph.node(indices[k]).type;
    if (type != ValueType::i32)
      report.add("gather.index",
                 fmt::format("index {} of \"{}\" is {}; it must be i32", k + 1, tensor.name, name(type)),
                 node.where, type == ValueType::f32 ? "round with to_i32(...)" : "");
  }
}

}  // namespace

void check_arity(Report& report, std::span<const NodeId> live) {
  for (NodeId id : live) {
    const Node& node = report.graph.node(id);
    const int wanted = wanted_operands(report.graph, node);
    const auto given = int(report.graph.operands(id).size());
    if (given == wanted || (as<Output>(node) && is_gradient(report.graph))) continue;
    if (const auto* gather = as<Gather>(node)) {
      const TensorInfo& tensor = report.graph.tensor(gather->tensor);
      report.add(
          "gather.rank",
          fmt::format("\"{}\" has {} dimensions, but {} indices are given", tensor.name, wanted, given),
          node.where);
    } else {
      report.add("expression.arity", fmt::format("an operation has {} operands; it needs {}", given, wanted),
                 node.where);
    }
  }
}

void check_types(Report& report, std::span<const NodeId> live) {
  for (NodeId id : live) {
    const Node& node = report.graph.node(id);
    if (const auto* apply = as<Apply>(node)) check_operand_types(report, id, info(apply->op));
    if (const auto* constant = as<Constant>(node)) check_constant(report, node, constant->value);
    if (const auto* gather = as<Gather>(node)) check_gather(report, id, report.graph.tensor(gather->tensor));
  }
}

}  // namespace attnfuse
