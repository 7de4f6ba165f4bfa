#include "passes/folder.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attnfuse {
namespace {

struct Payload {
  std::uint64_t bits = 0;
  std::string name;
};

Payload payload(const NodeKind& kind) {
  return std::visit(
      overloaded{
          [](const Input& input) { return Payload{input.tensor.value, {}}; },
          [](const Constant& constant) { return Payload{std::bit_cast<std::uint64_t>(constant.value), {}}; },
          [](const SizeOf& size) { return Payload{std::uint64_t(size.size), {}}; },
          [](const Index& index) { return Payload{std::uint64_t(index.axis), {}}; },
          [](const Variable& variable) { return Payload{0, variable.name}; },
          [](const Apply& apply) { return Payload{std::uint64_t(apply.op), {}}; },
          [](const Gather& gather) { return Payload{gather.tensor.value, {}}; },
          [](const Partner& partner) {
            return Payload{std::uint64_t(partner.count) * 2 + std::uint64_t(partner.pairs), {}};
          },
          [](const Reduce& reduce) { return Payload{std::uint64_t(reduce.op), {}}; },
          [](const Scores&) { return Payload{}; },
          [](const Normalize& normalize) { return Payload{std::uint64_t(normalize.kind), {}}; },
          [](const Attend&) { return Payload{}; },
          [](const LogSumExp&) { return Payload{}; },
          [](const RowMax&) { return Payload{}; },
          [](const Output& output) { return Payload{0, output.name}; },
          [](const Contract& contract) { return Payload{std::uint64_t(contract.over), {}}; },
          [](const SumOver& sum) { return Payload{std::uint64_t(sum.row), to_string(sum.over)}; },
          [](const Scatter& scatter) {
            return Payload{scatter.tensor.value * kSizeCount + std::uint64_t(scatter.row),
                           to_string(scatter.over)};
          },
      },
      kind);
}

// Whether a constant of the type can hold the value exactly enough to replace the operation.
bool representable(double value, ValueType type) {
  switch (type) {
    case ValueType::f32:
      return std::isfinite(value) && std::isfinite(float(value));
    case ValueType::i32:
      return value == std::floor(value) && value >= INT32_MIN && value <= INT32_MAX;
    case ValueType::boolean:
      return true;
  }
  ATTNFUSE_CHECK(false, "not a value type");
}

}  // namespace

bool is_commutative(ScalarOp op) {
  constexpr ScalarOp kCommutative[] = {
      ScalarOp::add,    ScalarOp::mul,    ScalarOp::min,         ScalarOp::max,        ScalarOp::eq,
      ScalarOp::ne,     ScalarOp::iadd,   ScalarOp::imul,        ScalarOp::imin,       ScalarOp::imax,
      ScalarOp::ieq,    ScalarOp::ine,    ScalarOp::logical_and, ScalarOp::logical_or, ScalarOp::bit_and,
      ScalarOp::bit_or, ScalarOp::bit_xor};
  return std::ranges::find(kCommutative, op) != std::end(kCommutative);
}

ScalarOp exchanged(ScalarOp op) {
  constexpr std::pair<ScalarOp, ScalarOp> kPairs[] = {{ScalarOp::lt, ScalarOp::gt},
                                                      {ScalarOp::le, ScalarOp::ge},
                                                      {ScalarOp::ilt, ScalarOp::igt},
                                                      {ScalarOp::ile, ScalarOp::ige}};
  for (const auto& [one, other] : kPairs) {
    if (op == one) return other;
    if (op == other) return one;
  }
  return op;
}

Folder::Key Folder::key_of(const Node& node, std::vector<NodeId> operands) {
  Payload payload = attnfuse::payload(node.kind);
  Key key{node.kind.index(), payload.bits, 0, std::move(payload.name), std::move(operands)};
  // Type and axes of all other kinds follow from kind and operands.
  if (as<Constant>(node) || as<Variable>(node)) {
    key.leaf = std::uint64_t(node.type);
    for (Axis axis : kAllAxes) key.leaf = key.leaf * 2 + (node.axes.has(axis) ? 1 : 0);
  }
  return key;
}

Folder::Folder(Graph& graph) : graph_(&graph) {
  for (std::uint32_t v = 0; v < graph.size(); ++v)
    known_.try_emplace(key_of(graph.node({v}), graph.operands({v})), NodeId{v});
}

NodeId Folder::unique(const Node& node, std::span<const NodeId> operands) {
  Key key = key_of(node, {operands.begin(), operands.end()});
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const NodeId id = graph_->add_like(node, operands);
  known_.emplace(std::move(key), id);
  return id;
}

NodeId Folder::add(const NodeKind& kind, std::span<const NodeId> operands, Where where) {
  if (const Apply* apply = std::get_if<Apply>(&kind)) return this->apply(apply->op, operands, where);
  if (const SizeOf* size = std::get_if<SizeOf>(&kind))
    if (const std::optional<int> fixed = graph_->info().size(size->size)) return i32(*fixed);
  Key key = key_of({kind, {}, {}, {}}, {operands.begin(), operands.end()});
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const NodeId id = graph_->add(kind, operands, std::move(where));
  known_.emplace(std::move(key), id);
  return id;
}

NodeId Folder::add(const NodeKind& kind, std::initializer_list<NodeId> operands, Where where) {
  return add(kind, std::span<const NodeId>(operands.begin(), operands.size()), std::move(where));
}

NodeId Folder::add_like(const Node& node, std::span<const NodeId> operands) {
  if (as<Constant>(node) || as<Variable>(node)) return unique(node, operands);
  return add(node.kind, operands, node.where);
}

NodeId Folder::constant(double value, ValueType type) { return unique({Constant{value}, type, {}, {}}, {}); }

NodeId Folder::variable(const std::string& name, ValueType type, Axes axes) {
  return unique({Variable{name}, type, axes, {}}, {});
}

std::optional<double> Folder::constant_of(NodeId id) const {
  const auto* constant = as<Constant>(graph_->node(id));
  return constant ? std::optional(constant->value) : std::nullopt;
}

NodeId Folder::apply(ScalarOp op, std::initializer_list<NodeId> operands, Where where) {
  return apply(op, std::span<const NodeId>(operands.begin(), operands.size()), std::move(where));
}

NodeId Folder::apply(ScalarOp op, std::span<const NodeId> given, Where where) {
  const ScalarOpInfo& row = info(op);
  ATTNFUSE_CHECK(given.size() == std::size_t(row.arity), "an operation has the wrong number of operands");
  std::vector<NodeId> operands(given.begin(), given.end());
  std::vector<double> values;
  for (NodeId operand : operands)
    if (const std::optional<double> value = constant_of(operand)) values.push_back(*value);
  if (values.size() == operands.size()) {
    const double value = row.value(values);
    if (representable(value, row.result)) return constant(value, row.result);
  } else if (is_commutative(op) || exchanged(op) != op) {
    const auto rank = [&](NodeId id) { return std::pair(constant_of(id).has_value(), id); };
    if (rank(operands[1]) < rank(operands[0])) {
      std::swap(operands[0], operands[1]);
      op = exchanged(op);
    }
  }
  if (const NodeId id = simpler(*this, op, operands); id.valid()) return id;
  Axes axes;
  for (NodeId operand : operands) axes = axes | graph_->node(operand).axes;
  return unique({Apply{op}, info(op).result, axes, std::move(where)}, operands);
}

}  // namespace attnfuse
