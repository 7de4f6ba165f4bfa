#include "ir/interval.h"

#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

// What a value of the type may be when nothing is known.
Interval unknown(ValueType type) {
  return type == ValueType::boolean ? Interval::truth() : Interval::everything();
}

Interval point(double value) { return std::isnan(value) ? Interval::everything() : Interval::point(value); }

// A constant table, whatever the indices.
Interval table_range(const TensorInfo& tensor, ValueType type) {
  if (tensor.role != TensorRole::constant || tensor.values.empty()) return unknown(type);
  Interval all = point(tensor.values.front());
  for (double value : tensor.values) all = hull(all, point(value));
  return all;
}

Interval node_range(const Graph& graph, NodeId id, std::span<const Interval> ranges,
                    const IntervalContext& context) {
  const Node& node = graph.node(id);
  if (const auto* apply = as<Apply>(node)) {
    const std::vector<NodeId> operands = graph.operands(id);
    ATTNFUSE_CHECK(operands.size() == std::size_t(info(apply->op).arity),
                   "an operation has the wrong number of operands");
    Interval x[kMaxArity];
    for (std::size_t k = 0; k < operands.size(); ++k) x[k] = ranges[operands[k].value];
    return info(apply->op).range({x, operands.size()});
  }
  if (const auto* constant = as<Constant>(node)) return point(constant->value);
  if (const auto* index = as<Index>(node)) return context.index[std::size_t(index->axis)];
  if (const auto* gather = as<Gather>(node)) return table_range(graph.tensor(gather->tensor), node.type);
  if (const auto* size = as<SizeOf>(node)) {
    const std::optional<int> fixed = graph.info().size(size->size);
    return fixed ? point(*fixed) : context.sizes[std::size_t(size->size)];
  }
  return unknown(node.type);
}

}  // namespace

Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Interval interval_of(const Graph& graph, NodeId root, const IntervalContext& context) {
  std::vector<Interval> ranges(graph.size());
  for (NodeId id : elementwise_cone(graph, {root})) ranges[id.value] = node_range(graph, id, ranges, context);
  return ranges[root.value];
}

}  // namespace attnfuse
