#include "passes/differentiate.h"

#include <algorithm>
#include <cfloat>
#include <set>

#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/gradient.h"
#include "passes/folder.h"
#include "passes/split_backward.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;
using Nodes = std::vector<NodeId>;

// What is known of one normalization, and the tensors that the forward pass saves of it.
struct ScoreRow {
  NodeId attend;                      // the product of its weights
  NodeId o, lse, row_sum, max_key;    // saved; in the gradient graph
  NodeId lse_gradient, max_gradient;  // what reaches the log-sum-exp and the largest score
};

// Where a value is one of many: its own axes, and those along which it is the same, though other things are
// not.
struct Positions {
  Axes axes;
  Size row = Size::head_dim;  // how long d is, where it is an axis
  bool operator==(const Positions&) const = default;
};

// A part of the gradient of one value, in the gradient graph: of all users that give it at the same positions
// and in the same kernel. Those at different positions may not be added before they are summed to the value's
// own, and those of different kernels only where both are in memory.
struct Contribution {
  Positions at;
  BackwardPart part;
  NodeId value;
};

constexpr Positions kPairs{{Axis::b, Axis::h, Axis::i, Axis::j}};
constexpr Positions kQueryRows{{Axis::b, Axis::h, Axis::i}};
constexpr Positions kKeyRows{{Axis::b, Axis::g, Axis::j}};

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

class Differentiator {
 public:
  explicit Differentiator(const Graph& from)
      : from_(from),
        live_(cone(from, from.outputs())),
        to_(from.info()),
        copies_(from.size()),
        active_(from.size()),
        contributions_(from.size()),
        totals_(from.size()) {
    for (const TensorInfo& tensor : from.tensors()) to_.add_tensor(tensor);
  }

  Result<Graph> run();

 private:
  NodeId op(Op op, NodeId x, NodeId y) { return to_.apply(op, {x, y}); }
  NodeId select(NodeId condition, NodeId x, NodeId y) { return to_.apply(Op::select, {condition, x, y}); }
  NodeId sum_over_d(NodeId x) { return to_.add(Reduce{ReduceOp::sum}, {x}); }
  NodeId row_tensor(std::string name, TensorRole role, bool has_dim, DType dtype = DType::f32);
  // Of the n-th score head: the second one's tensors end in 2.
  static std::string numbered(std::string_view name, std::size_t n) {
    return n == 0 ? std::string(name) : fmt::format("{}{}", name, n + 1);
  }

  void check_names();
  void check_discrete();
  void find_rows();
  void mark_active();
  void recompute(NodeId id);
  NodeId weights(NodeId id);

  void contribute(NodeId target, NodeId value, const Positions& at);
  Positions positions(NodeId id, const Positions& given = {}) const;
  NodeId summed(NodeId id, const Contribution& contribution);
  NodeId total(NodeId id);
  std::vector<Contribution> gradients(NodeId id);
  NodeId mask_of(const Contribution& contribution);
  TensorId input_of(NodeId value) const;
  NodeId reached(TensorId tensor);

  void propagate(NodeId id);
  void propagate_output(NodeId id, const std::string& name);
  void propagate_apply(NodeId id, Op op, const Contribution& gradient);
  void propagate_gather(NodeId id, TensorId tensor);
  void propagate_reduce(NodeId id, ReduceOp op, NodeId gradient);
  void propagate_attend(NodeId id, NodeId gradient);
  void propagate_normalize(NodeId id, NormalizeKind kind);
  void propagate_scores(NodeId id, NodeId gradient);
  void add_outputs();
  Graph simplified() const;

  const NodeId& copy(NodeId id) const { return copies_[id.value]; }
  const Node& node(NodeId id) const { return from_.node(id); }

  const Graph& from_;
  const Nodes live_;
  Graph to_;
  Nodes copies_;  // of each value of the program: how the gradient graph has it
  std::vector<bool> active_;
  std::vector<std::vector<Contribution>> contributions_;
  Nodes totals_;
  std::map<NodeId, ScoreRow> rows_;     // by normalization
  std::map<TensorId, NodeId> roots_;    // the transformed query, key or value, by the tensor it is made of
  std::map<TensorId, NodeId> reached_;  // whether a row of the tensor got any gradient
  std::map<TensorId, NodeId> inputs_;   // gradients of query, key and value
  std::map<TensorId, Nodes> scattered_;
  NodeId mask_;
  NodeId first_gradient_;  // those before it are values of the program
  BackwardParts parts_;    // of to_
  Diagnostics mistakes_;
};

NodeId Differentiator::row_tensor(std::string name, TensorRole role, bool has_dim, DType dtype) {
  std::vector<Extent> shape{{Size::batch}, {Size::heads}, {Size::sq}};
  if (has_dim) shape.push_back({Size::v_head_dim});
  if (const TensorId taken = to_.find_tensor(name); taken.valid())
    mistakes_.push_back(
        {"gradient.name",
         fmt::format("\"{}\" is what the backward pass calls the gradient of an output", name),
         to_.tensor(taken).where, "give the captured tensor another name"});
  return to_.add(Input{to_.add_tensor({std::move(name), dtype, role, std::move(shape), false, {}, {}})});
}

// Outputs are arguments of kernels as tensors are.
void Differentiator::check_names() {
  for (const TensorInfo& tensor : from_.tensors()) {
    const bool wanted = tensor.role != TensorRole::captured || tensor.grad;
    const TensorId taken = wanted ? from_.find_tensor(gradient_name(tensor.name)) : TensorId{};
    if (!taken.valid()) continue;
    mistakes_.push_back({"gradient.name",
                         fmt::format("\"{}\" is what the backward pass calls the gradient of \"{}\"",
                                     from_.tensor(taken).name, tensor.name),
                         from_.tensor(taken).where, "give the captured tensor another name"});
  }
}

// ---- the forward pass, as the backward sees it ---------------------------------------------------------

// One row of every normalization, in the order of the products.
void Differentiator::find_rows() {
  std::size_t n = 0;
  for (NodeId id : live_) {
    if (!as<Attend>(node(id))) continue;
    NodeId normalize;
    for (NodeId leaf : elementwise_cone(from_, {from_.operand(id, 0)}))
      if (as<Normalize>(node(leaf))) normalize = leaf;
    ATTNFUSE_CHECK(normalize.valid(), "weights of no normalization");
    ScoreRow row{
        id, row_tensor(numbered("o", n), TensorRole::saved, true, from_.info().dtype), {}, {}, {}, {}, {}};
    switch (as<Normalize>(node(normalize))->kind) {
      case NormalizeKind::softmax:
      case NormalizeKind::softmax_sink:
        row.lse = row_tensor(numbered("lse", n), TensorRole::saved, false);
        break;
      case NormalizeKind::retention:
        row.row_sum = row_tensor(numbered("row_sum", n), TensorRole::saved, false);
        break;
      case NormalizeKind::none:
        break;
    }
    for (NodeId user : live_)
      if (as<RowMax>(node(user)) && from_.operand(user, 0) == normalize)
        row.max_key = row_tensor(numbered("max_key", n), TensorRole::saved, false, DType::i32);
    rows_[normalize] = row;
    ++n;
  }
}

// A value is active when a wanted gradient goes through it.
void Differentiator::mark_active() {
  for (NodeId id : live_) {
    const Nodes operands = from_.operands(id);
    const auto* gather = as<Gather>(node(id));
    const bool starts = as<Input>(node(id)) || (gather && from_.tensor(gather->tensor).grad);
    const bool passes =
        !gather && std::ranges::any_of(operands, [&](NodeId operand) { return active_[operand.value]; });
    active_[id.value] = node(id).type == ValueType::f32 && (starts || passes);
  }
}

// The value again, from what the backward pass has.
void Differentiator::recompute(NodeId id) {
  Nodes operands;
  for (NodeId operand : from_.operands(id)) operands.push_back(copy(operand));
  NodeId& made = copies_[id.value];
  if (as<Output>(node(id)) || as<LogSumExp>(node(id)) || as<RowMax>(node(id))) return;
  if (as<Normalize>(node(id)))
    made = weights(id);
  else if (as<Attend>(node(id)))
    made = std::ranges::find_if(rows_, [&](const auto& row) { return row.second.attend == id; })->second.o;
  else
    made = to_.add_like(node(id), operands);
}

// Normalized weights from the scores and the saved log-sum-exp. Where that is minus infinity no score is
// finite.
NodeId Differentiator::weights(NodeId id) {
  ScoreRow& row = rows_.at(id);
  const NodeId score = copy(from_.operand(id, 0));
  switch (as<Normalize>(node(id))->kind) {
    case NormalizeKind::softmax:
    case NormalizeKind::softmax_sink: {
      const NodeId empty = op(Op::lt, row.lse, to_.constant(-FLT_MAX));
      row.lse = select(empty, to_.constant(0), row.lse);
      return to_.apply(Op::exp, {op(Op::sub, score, row.lse)});
    }
    case NormalizeKind::retention:
      return op(Op::div, score, op(Op::max, to_.apply(Op::abs, {row.row_sum}), to_.constant(1)));
    case NormalizeKind::none:
      return score;
  }
  ATTNFUSE_CHECK(false, "not a kind of normalization");
}

// ---- sums of contributions -----------------------------------------------------------------------------

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

// ---- one node at a time --------------------------------------------------------------------------------

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

// ---- the whole ---------------------------------------------------------------------------------------

void Differentiator::add_outputs() {
  for (std::uint32_t t = 0; t < from_.tensors().size(); ++t) {
    const TensorInfo& tensor = from_.tensors()[t];
    const TensorId id{t};
    const std::string name = gradient_name(tensor.name);
    if (tensor.role == TensorRole::captured && tensor.grad) {
      to_.add(Output{name}, scattered_[id], tensor.where);
    } else if (tensor.role == TensorRole::query || tensor.role == TensorRole::key ||
               tensor.role == TensorRole::value) {
      const NodeId zero = to_.constant(0);
      NodeId gradient = inputs_.contains(id) ? inputs_.at(id) : zero;
      if (input_of(gradient).valid()) gradient = select(reached(id), gradient, zero);
      to_.add(Output{name}, {gradient}, tensor.where);
    }
  }
}

// A wanted gradient that can be nothing but zero is a mistake; that of a tensor nobody reads is just zero.
void Differentiator::check_discrete() {
  for (NodeId id : live_) {
    const auto* gather = as<Gather>(node(id));
    if (!gather || !from_.tensor(gather->tensor).grad || scattered_.contains(gather->tensor)) continue;
    const TensorInfo& tensor = from_.tensor(gather->tensor);
    mistakes_.push_back({"gradient.discrete",
                         fmt::format("the gradient of \"{}\" is zero: it is read in masks, comparisons and "
                                     "roundings alone",
                                     tensor.name),
                         tensor.where, "leave out `grad`"});
    scattered_[gather->tensor];
  }
}

// Whether the linear map of a gradient that the node is gives zero, as what it is given is zero. Of the
// program's own values that is not so: they may be infinite, and times zero NaN.
bool is_zero(const Folder& folder, const Node& node, std::span<const NodeId> operands) {
  const auto zero = [&](std::size_t k) { return folder.constant_of(operands[k]) == 0.0; };
  if (const auto* apply = as<Apply>(node)) {
    if (apply->op == Op::mul) return zero(0) || zero(1);
    if (apply->op == Op::div) return zero(0);
    return apply->op == Op::select && zero(1) && zero(2);
  }
  const bool is_linear =
      as<SumOver>(node) || as<Contract>(node) || as<Scatter>(node) || as<Reduce>(node) || as<Partner>(node);
  return is_linear && zero(0);
}

// What is zero, because some operation passes nothing on, has lost its positions and is not summed.
Graph Differentiator::simplified() const {
  std::optional<Folder> folder;
  return rewrite_live(to_, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> operands) {
    if (!folder) folder.emplace(to);
    const Node& node = from.node(id);
    if (id >= first_gradient_ && is_zero(*folder, node, operands)) return folder->constant(0, ValueType::f32);
    if (!as<Output>(node)) return folder->add_like(node, operands);
    Nodes kept;
    for (std::size_t k = 0; k < operands.size(); ++k) {
      const bool was_sum = as<Scatter>(from.node(from.operand(id, int(k)))) != nullptr;
      if (!was_sum || as<Scatter>(to.node(operands[k]))) kept.push_back(operands[k]);
    }
    return folder->add(node.kind, kept, node.where);
  });
}

Result<Graph> Differentiator::run() {
  check_names();
  find_rows();
  mark_active();
  for (NodeId id : live_) recompute(id);
  first_gradient_ = {std::uint32_t(to_.size())};
  for (NodeId id : live_) {
    if (as<Normalize>(node(id))) mask_ = copy(from_.operand(id, 1));
    const bool is_product = as<Scores>(node(id)) || as<Attend>(node(id));
    for (int k = as<Attend>(node(id)) ? 1 : 0; is_product && k < 2; ++k)
      for (NodeId leaf : cone(from_, {from_.operand(id, k)}))
        if (const auto* input = as<Input>(node(leaf))) roots_[input->tensor] = from_.operand(id, k);
  }
  for (auto id = live_.rbegin(); id != live_.rend(); ++id) propagate(*id);
  check_discrete();
  if (!mistakes_.empty()) return mistakes_;
  add_outputs();
  return simplified();
}

}  // namespace

Result<Graph> differentiate(const Graph& program) {
  if (Diagnostics mistakes = verify(program); !mistakes.empty()) return mistakes;
  Result<Graph> gradient = Differentiator(program).run();
  if (!gradient) return gradient;
  if (Diagnostics mistakes = verify(*gradient); !mistakes.empty()) return mistakes;
  return gradient;
}

}  // namespace attnfuse
