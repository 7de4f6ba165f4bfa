#include "passes/expressions.h"

#include <fmt/format.h>
#include <optional>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

constexpr Axes kScalarAxes{Axis::b, Axis::h, Axis::g};

bool is_leaf(const Node& node) {
  return as<Constant>(node) || as<SizeOf>(node) || as<Index>(node) || as<Variable>(node);
}

// Worth a register for the whole loop: reads memory or costs more than a few instructions. Scalars are
// hoisted by themselves.
bool is_expensive(const Graph& graph, NodeId root) {
  for (NodeId id : cone(graph, {root})) {
    const Node& node = graph.node(id);
    if (node.axes.within(kScalarAxes)) continue;
    if (as<Gather>(node)) return true;
    if (const auto* apply = as<Apply>(node)) {
      switch (apply->op) {
        case ScalarOp::exp:
        case ScalarOp::exp2:
        case ScalarOp::log:
        case ScalarOp::log2:
        case ScalarOp::sqrt:
        case ScalarOp::rsqrt:
        case ScalarOp::tanh:
        case ScalarOp::sin:
        case ScalarOp::cos:
        case ScalarOp::div:
        case ScalarOp::idiv:
        case ScalarOp::imod:
          return true;
        default:
          break;
      }
    }
  }
  return false;
}

}  // namespace

Hoisted Hoister::run(NodeId root, const std::string& prefix) {
  prefix_ = prefix;
  result_ = {};
  result_.root = visit(root);
  return std::move(result_);
}

NodeId Hoister::visit(NodeId id) {
  if (const auto found = done_.find(id); found != done_.end()) return found->second;
  const NodeId result = place(id);
  done_[id] = result;
  return result;
}

NodeId Hoister::place(NodeId id) {
  const Node node = graph_->node(id);
  if (is_leaf(node)) return id;
  if (node.axes.within(kScalarAxes)) return keep(id, result_.scalars, "");
  const bool per_row = node.axes.within(kScalarAxes | Axes{Axis::i});
  const bool per_column = node.axes.within(kScalarAxes | Axes{Axis::j});
  if ((per_row || per_column) && is_expensive(*graph_, id))
    return per_row ? keep(rebuild(id), result_.rows, "_i") : keep(rebuild(id), result_.columns, "_j");
  return rebuild(id);
}

NodeId Hoister::rebuild(NodeId id) {
  const Node node = graph_->node(id);
  std::vector<NodeId> operands = graph_->operands(id);
  bool changed = false;
  for (NodeId& operand : operands) {
    const NodeId mapped = visit(operand);
    changed |= mapped != operand;
    operand = mapped;
  }
  return changed ? graph_->add(node.kind, operands, node.where) : id;
}

NodeId Hoister::keep(NodeId id, std::vector<Hoisted::Value>& values, const std::string& suffix) {
  const Node node = graph_->node(id);
  if (is_leaf(node)) return id;
  std::string base = prefix_;
  if (const auto* gather = as<Gather>(node)) base = graph_->tensor(gather->tensor).name;
  std::string name = fmt::format("{}{}_{}", base, suffix, count_++);
  values.push_back({name, id});
  return graph_->variable(name, node.type, node.axes);
}

bool is_masked(const Graph& graph) {
  const auto* mask = as<Constant>(graph.node(graph.operand(find<Normalize>(graph), 1)));
  return mask == nullptr || mask->value == 0;
}

NodeId substitute(Graph& graph, NodeId root, const std::map<NodeId, NodeId>& replacements) {
  std::map<NodeId, NodeId> mapped = replacements;
  // Replaced nodes cut the cone: what only they need is not copied.
  const auto visit = [&](const auto& self, NodeId id) -> NodeId {
    if (const auto found = mapped.find(id); found != mapped.end()) return found->second;
    std::vector<NodeId> operands = graph.operands(id);
    bool changed = false;
    for (NodeId& operand : operands) {
      const NodeId next = self(self, operand);
      changed |= next != operand;
      operand = next;
    }
    const Node node = graph.node(id);
    const NodeId result = changed ? graph.add(node.kind, operands, node.where) : id;
    mapped[id] = result;
    return result;
  };
  return visit(visit, root);
}

namespace {

// A sum of positions in two parts; an invalid register's part is 0.
struct Parts {
  NodeId thread, register_;
};

std::optional<Parts> parts_of(Graph& graph, NodeId id) {
  const Node node = graph.node(id);
  if (const auto* index = as<Index>(node);
      index != nullptr && (index->axis == Axis::i || index->axis == Axis::j)) {
    const std::string axis(name(index->axis));
    return Parts{graph.variable(axis + "_at", ValueType::i32, {index->axis}),
                 graph.variable(axis + "_step", ValueType::i32, {index->axis})};
  }
  if (!node.axes.has(Axis::i) && !node.axes.has(Axis::j)) return Parts{id, {}};
  const auto* apply = as<Apply>(node);
  if (apply == nullptr || (apply->op != ScalarOp::iadd && apply->op != ScalarOp::isub)) return {};
  const auto x = parts_of(graph, graph.operand(id, 0)), y = parts_of(graph, graph.operand(id, 1));
  if (!x || !y) return {};
  const auto combined = [&](NodeId a, NodeId b) {
    if (!b.valid()) return a;
    return graph.apply(apply->op, {a.valid() ? a : graph.constant(0, ValueType::i32), b});
  };
  return Parts{combined(x->thread, y->thread), combined(x->register_, y->register_)};
}

}  // namespace

NodeId split_positions(Graph& graph, NodeId root) {
  std::map<NodeId, NodeId> replacements;
  for (NodeId id : elementwise_cone(graph, {root})) {
    const auto* apply = as<Apply>(graph.node(id));
    if (apply == nullptr || apply->op != ScalarOp::to_f32) continue;
    const auto parts = parts_of(graph, graph.operand(id, 0));
    if (!parts || !parts->register_.valid()) continue;
    replacements[id] = graph.apply(ScalarOp::add, {graph.apply(ScalarOp::to_f32, {parts->thread}),
                                                   graph.apply(ScalarOp::to_f32, {parts->register_})});
  }
  return substitute(graph, root, replacements);
}

Peeled peel_factor(const Graph& graph, NodeId root) {
  const auto* apply = as<Apply>(graph.node(root));
  if (apply == nullptr || apply->op != ScalarOp::mul) return {root, 1};
  for (int side : {0, 1}) {
    const auto* constant = as<Constant>(graph.node(graph.operand(root, side)));
    if (constant != nullptr && constant->value > 0) return {graph.operand(root, 1 - side), constant->value};
  }
  return {root, 1};
}

}  // namespace attnfuse
