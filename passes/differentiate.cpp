#include "passes/differentiate.h"

#include <algorithm>
#include <cfloat>
#include <ranges>

#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/gradient.h"
#include "passes/differentiator.h"
#include "passes/folder.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

// Names of the n-th score head: the second one's end in 2.
std::string numbered(std::string_view name, std::size_t n) {
  return n == 0 ? std::string(name) : fmt::format("{}{}", name, n + 1);
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

}  // namespace

Differentiator::Differentiator(const Graph& from)
    : from_(from),
      live_(cone(from, from.outputs())),
      to_(from.info()),
      copies_(from.size()),
      active_(from.size()),
      contributions_(from.size()),
      totals_(from.size()) {
  for (const TensorInfo& tensor : from.tensors()) to_.add_tensor(tensor);
}

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
                         fmt::format(R"("{}" is what the backward pass calls the gradient of "{}")",
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

// The transformed tensors, and the mask, which all normalizations share.
void Differentiator::find_roots() {
  const auto transformed = [&](NodeId root) {
    for (NodeId leaf : cone(from_, {root}))
      if (const auto* input = as<Input>(node(leaf))) roots_[input->tensor] = root;
  };
  for (NodeId id : live_) {
    if (as<Normalize>(node(id))) mask_ = copy(from_.operand(id, 1));
    if (as<Scores>(node(id))) transformed(from_.operand(id, 0));
    if (as<Scores>(node(id)) || as<Attend>(node(id))) transformed(from_.operand(id, 1));
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
  find_roots();
  for (NodeId id : std::ranges::reverse_view(live_)) propagate(id);
  check_discrete();
  if (!mistakes_.empty()) return mistakes_;
  add_outputs();
  return simplified();
}

Result<Graph> differentiate(const Graph& program) {
  if (Diagnostics mistakes = verify(program); !mistakes.empty()) return mistakes;
  if (program.info().score_heads > 1)
    return Diagnostic{"gradient.score-heads", "gradients of programs with two score heads are not made",
                      program.info().where,
                      "differentiate a program of each head, and subtract what they give"};
  Result<Graph> gradient = Differentiator(program).run();
  if (!gradient) return gradient;
  if (Diagnostics mistakes = verify(*gradient); !mistakes.empty()) return mistakes;
  return gradient;
}

}  // namespace attnfuse
