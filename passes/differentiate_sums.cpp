#include <algorithm>
#include <set>

#include "ir/algorithm.h"
#include "ir/gradient.h"
#include "passes/differentiator.h"

namespace attnfuse {
namespace {

Axes missing_axes(Axes from, Axes in) {
  Axes missing;
  for (Axis axis : kAllAxes)
    if (from.has(axis) && !in.has(axis)) missing = missing | Axes{axis};
  return missing;
}

// Two of the axes that tiles have.
bool fills_tile(Axes axes) {
  return int(axes.has(Axis::i)) + int(axes.has(Axis::j)) + int(axes.has(Axis::d)) > 1;
}

}  // namespace

// Of a value of the program whose gradient is given at these.
Positions Differentiator::positions(NodeId id, const Positions& given) const {
  const Axes axes = given.axes | node(id).axes;
  if (!axes.has(Axis::d) || given.axes.has(Axis::d)) return {axes, given.row};
  return {axes, row_size(from_, id)};
}

void Differentiator::contribute(NodeId target, NodeId value, const Positions& at) {
  if (!active_[target.value]) return;
  if (const auto* constant = as<Constant>(to_.node(value)); constant && constant->value == 0) return;
  const BackwardPart least = at.axes.has(Axis::j) ? BackwardPart::main : BackwardPart::shared;
  const BackwardPart part = std::max(parts_.of(to_, value), least);
  for (Contribution& other : contributions_[target.value]) {
    if (other.at != at || other.part != part) continue;
    other.value = op(Op::add, other.value, value);
    return;
  }
  contributions_[target.value].push_back({at, part, value});
}

// Rows of a tensor that got no gradient contribute nothing, whatever they hold: masked keys may hold
// anything.
NodeId Differentiator::reached(TensorId tensor) {
  NodeId& known = reached_[tensor];
  if (known.valid()) return known;
  const NodeId size = sum_over_d(to_.apply(Op::abs, {total(roots_.at(tensor))}));
  return known = op(Op::ne, size, to_.constant(0));
}

// The query, key or value tensor whose row at the value's own position it reads, if any.
TensorId Differentiator::input_of(NodeId value) const {
  Nodes pending{value};
  std::set<NodeId> seen;
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    const Node& node = to_.node(id);
    const auto* input = as<Input>(node);
    if (input && roots_.contains(input->tensor)) return input->tensor;
    // These read rows of other positions, under the mask.
    if (as<Contract>(node) || as<Scores>(node) || as<SumOver>(node) || !seen.insert(id).second) continue;
    for (NodeId operand : to_.operands(id)) pending.push_back(operand);
  }
  return {};
}

// Where a contribution is summed.
NodeId Differentiator::mask_of(const Contribution& contribution) {
  if (contribution.at.axes.has(Axis::i) && contribution.at.axes.has(Axis::j)) return mask_;
  const TensorId input = input_of(contribution.value);
  return input.valid() ? reached(input) : to_.constant(1, ValueType::boolean);
}

// The contribution at no more than the value's own axes.
NodeId Differentiator::summed(NodeId id, const Contribution& contribution) {
  const Axes missing = missing_axes(contribution.at.axes, node(id).axes);
  if (missing.empty()) return contribution.value;
  if (missing == Axes{Axis::d} && to_.node(contribution.value).axes.has(Axis::d))
    return sum_over_d(contribution.value);
  return to_.add(SumOver{missing, missing.has(Axis::d) ? contribution.at.row : Size::head_dim},
                 {contribution.value, mask_of(contribution)});
}

// The gradient of a value at its own axes; invalid when nothing reaches it.
NodeId Differentiator::total(NodeId id) {
  NodeId& sum = totals_[id.value];
  if (sum.valid()) return sum;
  for (const Contribution& contribution : contributions_[id.value]) {
    const NodeId value = summed(id, contribution);
    sum = sum.valid() ? op(Op::add, sum, value) : value;
  }
  return sum;
}

// What goes on to the operands of an operation, each by itself. A value that fills a tile keeps the positions
// that its gradient stands at: summed, it would be as large as a sequence times a tile's side, or two
// sequences.
std::vector<Contribution> Differentiator::gradients(NodeId id) {
  std::vector<Contribution> result = contributions_[id.value];
  if (fills_tile(node(id).axes)) return result;
  for (Contribution& contribution : result) {
    contribution.value = summed(id, contribution);
    const bool has_dim = node(id).axes.has(Axis::d);
    contribution.at = {node(id).axes, has_dim ? contribution.at.row : Size::head_dim};
  }
  return result;
}

}  // namespace attnfuse
