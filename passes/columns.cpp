#include "passes/columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/folder.h"

namespace attnfuse {
namespace {

// A value, or its negative: cos(-a) = cos(a) and sin(-a) = -sin(a) make one of two.
struct Signed {
  NodeId node;
  bool negated = false;
};

// What the leaves of an expression become at one column of a group.
struct Column {
  std::vector<int> d;  // of the group's first columns
  int shift = 0;       // this column is d + shift
  NodeId own, other;   // for Input and Partner; invalid: they stay
};

// An expression at one column: d becomes d + shift, comparisons that hold for all of the group's columns are
// decided, and tables are read where the first column reads them, if they hold the same (or the negative).
class AtColumn {
 public:
  AtColumn(Folder& folder, Column column) : folder_(folder), column_(std::move(column)) {
    const auto [least, most] = std::ranges::minmax_element(column_.d);
    context_.index[std::size_t(Axis::d)] = {double(*least + column_.shift), double(*most + column_.shift)};
  }

  NodeId value(NodeId id) {
    const Signed result = visit(id);
    return result.negated ? folder_.apply(ScalarOp::neg, {result.node}) : result.node;
  }

 private:
  Graph& graph() { return folder_.graph(); }

  Signed visit(NodeId id) {
    if (const auto found = done_.find(id); found != done_.end()) return found->second;
    const Signed result = place(id);
    done_[id] = result;
    return result;
  }

  Signed place(NodeId id) {
    const Node node = graph().node(id);
    if (as<Input>(node)) return {column_.own.valid() ? column_.own : id};
    if (as<Partner>(node)) return {column_.other.valid() ? column_.other : id};
    if (!node.axes.has(Axis::d)) return {id};
    if (as<Index>(node)) return {at(id)};
    if (const auto* gather = as<Gather>(node)) return gathered(id, *gather);
    const auto* apply = as<Apply>(node);
    ATTNFUSE_CHECK(apply, "only elementwise values have columns");
    if (node.type == ValueType::boolean)
      if (const Interval range = interval_of(graph(), id, context_); range.is_point())
        return {folder_.truth(range.lo != 0)};
    return applied(apply->op, graph().operands(id));
  }

  NodeId at(NodeId d) {
    return column_.shift == 0 ? d : folder_.apply(ScalarOp::iadd, {d, folder_.i32(column_.shift)});
  }

  Signed gathered(NodeId id, const Gather& gather) {
    std::vector<NodeId> indices = graph().operands(id);
    const TensorInfo& table = graph().tensor(gather.tensor);
    if (table.role == TensorRole::constant && as<Index>(graph().node(indices[0]))) {
      // A column's partner, for one.
      const auto ahead = [&](int d) { return table.values.at(std::size_t(d + column_.shift)) - d; };
      const double distance = ahead(column_.d.front());
      if (graph().node(id).type == ValueType::i32 &&
          std::ranges::all_of(column_.d, [&](int d) { return ahead(d) == distance; }))
        return {folder_.apply(ScalarOp::iadd, {indices[0], folder_.i32(distance)})};
      const auto holds = [&](double sign) {
        return std::ranges::all_of(column_.d, [&](int d) {
          return table.values.at(std::size_t(d + column_.shift)) == sign * table.values[std::size_t(d)];
        });
      };
      if (holds(1)) return {id};
      if (graph().node(id).type == ValueType::f32 && holds(-1)) return {id, true};
    }
    for (NodeId& index : indices) index = value(index);
    return {folder_.add(gather, indices)};
  }

  Signed applied(ScalarOp op, const std::vector<NodeId>& operands) {
    switch (op) {
      case ScalarOp::neg: {
        const Signed x = visit(operands[0]);
        return {x.node, !x.negated};
      }
      case ScalarOp::cos:
      case ScalarOp::abs:
        return {folder_.apply(op, {visit(operands[0]).node})};
      case ScalarOp::sin:
      case ScalarOp::tanh: {
        const Signed x = visit(operands[0]);
        return {folder_.apply(op, {x.node}), x.negated};
      }
      case ScalarOp::mul:
      case ScalarOp::div: {
        const Signed x = visit(operands[0]), y = visit(operands[1]);
        return {folder_.apply(op, {x.node, y.node}), x.negated != y.negated};
      }
      default: {
        std::vector<NodeId> values;
        for (NodeId operand : operands) values.push_back(value(operand));
        return {folder_.apply(op, values)};
      }
    }
  }

  Folder& folder_;
  Column column_;
  IntervalContext context_;
  std::map<NodeId, Signed> done_;
};

// Takes what does not depend on the elements or the head out of the expressions of a group.
class Sharer {
 public:
  Sharer(Folder& folder, ColumnGroup& group) : folder_(folder), group_(group) {}

  NodeId visit(NodeId id) {
    if (const auto found = done_.find(id); found != done_.end()) return found->second;
    const NodeId result = place(id);
    done_[id] = result;
    return result;
  }

 private:
  bool is_common(NodeId id) {
    if (const auto found = common_.find(id); found != common_.end()) return found->second;
    const Node& node = folder_.graph().node(id);
    bool common = is_elementwise(node) && !node.axes.has(Axis::h) && !node.axes.has(Axis::g);
    for (NodeId operand : folder_.graph().operands(id)) common = common && is_common(operand);
    return common_[id] = common;
  }

  NodeId place(NodeId id) {
    const Node node = folder_.graph().node(id);
    std::vector<NodeId> operands = folder_.graph().operands(id);
    if (operands.empty() || as<Partner>(node) || as<Reduce>(node)) return id;
    if (is_common(id)) {
      const std::string name = fmt::format("common{}", group_.shared.size());
      group_.shared.push_back({name, id});
      return folder_.variable(name, node.type, node.axes);
    }
    for (NodeId& operand : operands) operand = visit(operand);
    return folder_.add(node.kind, operands, node.where);
  }

  Folder& folder_;
  ColumnGroup& group_;
  std::map<NodeId, bool> common_;
  std::map<NodeId, NodeId> done_;
};

class Grouper {
 public:
  Grouper(Graph& graph, NodeId transform) : folder_(graph), transform_(transform) {
    for (NodeId id : cone(graph, {transform}))
      if (const auto* partner = as<Partner>(graph.node(id))) {
        uniform_ = uniform_ && (!partner_ || same(*partner_, *partner));
        partner_ = *partner;
      }
  }

  std::vector<ColumnGroup> run(int columns) {
    if (!uniform_) return {alone(0, columns, {})};
    int paired = 0;
    std::vector<ColumnGroup> groups;
    if (partner_) {
      paired = partner_->count;
      groups.push_back(together());
    }
    // Past the pairs an element is its own partner.
    if (paired < columns) groups.push_back(alone(paired, columns, element("x")));
    return groups;
  }

 private:
  static bool same(const Partner& a, const Partner& b) { return a.pairs == b.pairs && a.count == b.count; }

  NodeId element(const char* name) {
    return folder_.variable(name, ValueType::f32, folder_.graph().node(transform_).axes);
  }

  ColumnGroup alone(int begin, int end, NodeId own) {
    ColumnGroup group{begin, end, 0, {}, {}, {}};
    Column column;
    for (int d = begin; d < end; ++d) column.d.push_back(d);
    column.own = own.valid() ? own : element("x");
    column.other = own;
    group.first = AtColumn(folder_, column).value(transform_);
    return shared(group);
  }

  ColumnGroup together() {
    const bool half = partner_->pairs == RotaryPairs::half;
    ColumnGroup group{0, half ? partner_->count / 2 : partner_->count, half ? partner_->count / 2 : 1, {}, {},
                      {}};
    Column column;
    for (int d = group.begin; d < group.end; d += half ? 1 : 2) column.d.push_back(d);
    column.own = element("x");
    column.other = element("y");
    group.first = AtColumn(folder_, column).value(transform_);
    std::swap(column.own, column.other);
    column.shift = group.partner;
    group.second = AtColumn(folder_, column).value(transform_);
    return shared(group);
  }

  ColumnGroup shared(ColumnGroup group) {
    Sharer sharer(folder_, group);
    group.first = sharer.visit(group.first);
    if (group.second.valid()) group.second = sharer.visit(group.second);
    return group;
  }

  Folder folder_;
  NodeId transform_;
  std::optional<Partner> partner_;
  bool uniform_ = true;
};

}  // namespace

std::vector<ColumnGroup> column_groups(Graph& graph, NodeId transform, int columns) {
  return Grouper(graph, transform).run(columns);
}

namespace {

// Elements that are not read by a sum over the row alone.
bool reads_elements(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (as<Reduce>(node) != nullptr) return false;
  if (as<Input>(node) != nullptr) return true;
  return std::ranges::any_of(graph.operands(id),
                             [&](NodeId operand) { return reads_elements(graph, operand); });
}

}  // namespace

std::vector<ColumnGroup> slot_columns(Graph& graph, NodeId transform, int columns, int threads) {
  constexpr int kLanes = 32;
  std::vector<ColumnGroup> groups = column_groups(graph, transform, columns);
  for (const ColumnGroup& group : groups) {
    const bool apart = group.partner > 1;
    const int width = apart ? 2 : 4, extent = group.end - group.begin, units = extent / width;
    if (group.begin % 2 != 0 || extent % width != 0 || (apart && group.partner % 2 != 0)) return {};
    std::vector<NodeId> roots{group.first};
    if (group.second.valid()) roots.push_back(group.second);
    for (NodeId root : roots) {
      // Pairs that are left stand in sums, and may lie in another lane.
      if (reads_elements(graph, root) || !partners(graph, root).empty()) return {};
      const bool is_whole = group.begin == 0 && extent * (apart ? 2 : 1) == columns && group.partner != 1;
      const bool shares = (units & (units - 1)) == 0 && units <= kLanes && threads % units == 0;
      if (reduces(graph, root) && !(is_whole && shares)) return {};
    }
  }
  return groups;
}

}  // namespace attnfuse
