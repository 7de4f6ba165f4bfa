#include "ir/gradient.h"
#include "passes/differentiator.h"

namespace attnfuse {
namespace {

constexpr Positions kPairs{{Axis::b, Axis::h, Axis::i, Axis::j}};
constexpr Positions kQueryRows{{Axis::b, Axis::h, Axis::i}};
constexpr Positions kKeyRows{{Axis::b, Axis::g, Axis::j}};

}  // namespace

void Differentiator::propagate(NodeId id) {
  if (!active_[id.value]) return;
  if (const auto* gather = as<Gather>(node(id))) return propagate_gather(id, gather->tensor);
  if (const auto* normalize = as<Normalize>(node(id))) return propagate_normalize(id, normalize->kind);
  if (const auto* output = as<Output>(node(id))) return propagate_output(id, output->name);
  if (const auto* apply = as<Apply>(node(id))) {
    for (const Contribution& gradient : gradients(id)) propagate_apply(id, apply->op, gradient);
    return;
  }
  const NodeId gradient = total(id);
  if (!gradient.valid()) return;
  if (const auto* input = as<Input>(node(id))) inputs_[input->tensor] = gradient;
  if (const auto* reduce = as<Reduce>(node(id))) propagate_reduce(id, reduce->op, gradient);
  if (const auto* partner = as<Partner>(node(id)))
    contribute(from_.operand(id, 0), to_.add(*partner, {gradient}), positions(id));
  if (as<Scores>(node(id))) propagate_scores(id, gradient);
  if (as<Attend>(node(id))) propagate_attend(id, gradient);
  if (as<LogSumExp>(node(id))) rows_.at(from_.operand(id, 0)).lse_gradient = gradient;
  if (as<RowMax>(node(id))) rows_.at(from_.operand(id, 0)).max_gradient = gradient;
}

void Differentiator::propagate_output(NodeId id, const std::string& name) {
  const NodeId value = from_.operand(id, 0);
  const bool has_dim = node(value).axes.has(Axis::d);
  contribute(value, row_tensor(gradient_name(name), TensorRole::upstream, has_dim), positions(value));
}

void Differentiator::propagate_apply(NodeId id, Op op, const Contribution& gradient) {
  const ScalarOpInfo& row = info(op);
  ATTNFUSE_CHECK(row.vjp, "an f32 value has no derivative: " + std::string(row.name));
  const Nodes operands = from_.operands(id);
  Nodes copies;
  for (NodeId operand : operands) copies.push_back(copy(operand));
  const Nodes gradients = row.vjp(to_, copies, copy(id), gradient.value);
  const Positions at = positions(id, gradient.at);
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (row.operand[k] == ValueType::f32) contribute(operands[k], gradients[k], at);
}

void Differentiator::propagate_gather(NodeId id, TensorId tensor) {
  for (const Contribution& contribution : contributions_[id.value]) {
    Nodes operands{contribution.value};
    for (NodeId index : from_.operands(id)) operands.push_back(copy(index));
    operands.push_back(mask_of(contribution));
    const Positions at = positions(id, contribution.at);
    scattered_[tensor].push_back(to_.add(Scatter{tensor, at.axes, at.row}, operands, node(id).where));
  }
}

void Differentiator::propagate_reduce(NodeId id, ReduceOp kind, NodeId gradient) {
  const NodeId x = from_.operand(id, 0);
  ATTNFUSE_CHECK(node(x).axes.has(Axis::d), "a reduction over d of what does not depend on it");
  switch (kind) {
    case ReduceOp::sum:
      return contribute(x, gradient, positions(x));
    case ReduceOp::max:
    case ReduceOp::maximum: {
      const NodeId is_largest = to_.apply(Op::bool_to_f32, {op(Op::eq, copy(x), copy(id))});
      const NodeId share = op(Op::div, gradient, sum_over_d(is_largest));
      return contribute(x, op(Op::mul, share, is_largest), positions(x));
    }
  }
}

void Differentiator::propagate_attend(NodeId id, NodeId gradient) {
  const NodeId weights = from_.operand(id, 0), value = from_.operand(id, 1);
  contribute(weights, to_.add(Scores{}, {gradient, copy(value)}), kPairs);
  contribute(value, to_.add(Contract{Axis::i}, {copy(weights), gradient, mask_}), positions(value, kKeyRows));
}

void Differentiator::propagate_scores(NodeId id, NodeId gradient) {
  const NodeId query = from_.operand(id, 0), key = from_.operand(id, 1);
  contribute(query, to_.add(Contract{Axis::j}, {gradient, copy(key), mask_}), positions(query, kQueryRows));
  contribute(key, to_.add(Contract{Axis::i}, {gradient, copy(query), mask_}), positions(key, kKeyRows));
}

// With p the normalized weights and dp their gradient, which come out of a product with the values alone, the
// sum over j of p * dp is the sum over d of o * do: no second run over the keys.
void Differentiator::propagate_normalize(NodeId id, NormalizeKind kind) {
  const ScoreRow& row = rows_.at(id);
  const NodeId score = from_.operand(id, 0), p = copy(id);
  NodeId dp = total(id);
  if (!dp.valid()) dp = to_.constant(0);
  const NodeId o_gradient = total(row.attend);
  NodeId delta = o_gradient.valid() ? sum_over_d(op(Op::mul, o_gradient, row.o)) : to_.constant(0);
  if (row.lse_gradient.valid()) delta = op(Op::sub, delta, row.lse_gradient);
  switch (kind) {
    case NormalizeKind::softmax_sink: {
      const NodeId sink = from_.operand(id, 2);
      const NodeId share = to_.apply(Op::exp, {op(Op::sub, copy(sink), row.lse)});
      contribute(sink, to_.apply(Op::neg, {op(Op::mul, share, delta)}), kQueryRows);
      if (row.max_gradient.valid()) {
        const NodeId is_largest = op(Op::ilt, row.max_key, to_.constant(0, ValueType::i32));
        contribute(sink, select(is_largest, row.max_gradient, to_.constant(0)), kQueryRows);
      }
      [[fallthrough]];
    }
    case NormalizeKind::softmax:
      contribute(score, op(Op::mul, p, op(Op::sub, dp, delta)), kPairs);
      break;
    case NormalizeKind::retention: {
      const NodeId size = to_.apply(Op::abs, {row.row_sum}), one = to_.constant(1), zero = to_.constant(0);
      const NodeId signed_delta = select(op(Op::gt, row.row_sum, zero), delta, to_.apply(Op::neg, {delta}));
      const NodeId through_sum = select(op(Op::gt, size, one), signed_delta, zero);
      contribute(score, op(Op::div, op(Op::sub, dp, through_sum), op(Op::max, size, one)), kPairs);
      break;
    }
    case NormalizeKind::none:
      contribute(score, dp, kPairs);
      break;
  }
  if (!row.max_gradient.valid()) return;
  const NodeId is_largest = op(Op::ieq, to_.index(Axis::j), row.max_key);
  contribute(score, select(is_largest, row.max_gradient, to_.constant(0)), kPairs);
}

}  // namespace attnfuse
