#include "runtime/dual_row.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

// What is not computed here but given.
bool is_leaf(const Node& node) {
  return !is_elementwise(node) && !as<Partner>(node) && !as<Reduce>(node) && !as<Output>(node);
}

// Not those of row_expression.h: the two are held against each other.
std::size_t mate(const Partner& partner, std::size_t d) {
  const auto count = std::size_t(partner.count);
  if (d >= count) return d;
  if (partner.pairs == RotaryPairs::interleaved) return d % 2 == 0 ? d + 1 : d - 1;
  return (d + count / 2) % count;
}

double reduced_onto(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
      return a + b;
    case ReduceOp::max:
      return std::fmax(a, b);
    case ReduceOp::maximum:
      return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b);
  }
  return a;
}

// Nodes down to leaves, operands first.
std::vector<NodeId> needed(const Graph& graph, NodeId root) {
  std::vector<NodeId> pending{root}, found;
  std::vector<bool> seen(graph.size());
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (seen[id.value]) continue;
    seen[id.value] = true;
    found.push_back(id);
    if (is_leaf(graph.node(id))) continue;
    for (NodeId operand : graph.operands(id)) pending.push_back(operand);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

DualRow::DualRow(const Graph& graph, NodeId root, Axis along, std::int64_t length, const SizeValues& sizes,
                 const CapturedTensors& captured)
    : graph_(&graph), along_(along), length_(std::size_t(length)), sizes_(sizes), captured_(&captured) {
  std::vector<std::size_t> step_of(graph.size());
  for (NodeId id : needed(graph, root)) {
    const Node& node = graph.node(id);
    const auto* gather = as<Gather>(node);
    Step step{
        id, {}, node.axes.has(along), is_leaf(node) || (gather && graph.tensor(gather->tensor).grad), {},
        {}, {}};
    if (!is_leaf(node))
      for (NodeId operand : graph.operands(id)) step.operands.push_back(step_of[operand.value]);
    step.values.resize(step.wide ? length_ : 1);
    step.tangents.resize(step.values.size());
    step_of[id.value] = steps_.size();
    steps_.push_back(std::move(step));
  }
  row_.resize(length_);
}

std::span<const double> DualRow::operator()(const Position& at, const Leaves& leaves) {
  for (Step& step : steps_) evaluate(step, at, leaves);
  const Step& root = steps_.back();
  if (root.wide) return root.values;
  std::ranges::fill(row_, root.values[0]);
  return row_;
}

bool DualRow::reads(NodeId leaf) const {
  return std::ranges::any_of(steps_, [&](const Step& step) { return step.node == leaf; });
}

void DualRow::evaluate(Step& step, const Position& at, const Leaves& leaves) {
  const Node& node = graph_->node(step.node);
  if (is_leaf(node)) {
    const std::span<const double> leaf = leaves(step.node);
    ATTNFUSE_CHECK(leaf.size() >= step.length(), "an expression reads a value that is not at hand");
    std::copy_n(leaf.begin(), step.length(), step.values.begin());
    return;
  }
  if (const auto* reduce = as<Reduce>(node)) {
    double result = identity(reduce->op);
    for (std::size_t x = 0; x < length_; ++x)
      result = reduced_onto(reduce->op, result, value(step.operands[0], x));
    step.values[0] = result;
    return;
  }
  for (std::size_t x = 0; x < step.length(); ++x) {
    double& to = step.values[x];
    if (const auto* constant = as<Constant>(node)) {
      to = constant->value;
    } else if (const auto* size = as<SizeOf>(node)) {
      to = double(sizes_[size->size]);
    } else if (const auto* index = as<Index>(node)) {
      to = index->axis == along_ ? double(x) : double(at[index->axis]);
    } else if (const auto* gather = as<Gather>(node)) {
      to = gathered(step, gather->tensor, x);
    } else if (const auto* partner = as<Partner>(node)) {
      to = value(step.operands[0], mate(*partner, x));
    } else if (const auto* apply = as<Apply>(node)) {
      double operands[kMaxArity] = {};
      for (std::size_t k = 0; k < step.operands.size(); ++k) operands[k] = value(step.operands[k], x);
      to = info(apply->op).value({operands, step.operands.size()});
    } else {
      to = value(step.operands[0], x);  // an output
    }
  }
}

// ---- captured tensors ----------------------------------------------------------------------------------

// Row-major without strides; -1 in an empty tensor.
std::int64_t DualRow::offset(const Step& step, const TensorInfo& tensor,
                             const std::vector<std::int64_t>* strides, std::size_t x) const {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < tensor.shape.size(); ++k) {
    const std::int64_t extent = extent_of(tensor.shape[k], sizes_);
    if (extent == 0) return -1;
    const double wanted = value(step.operands[k], x);
    const auto index = std::int64_t(std::fmin(std::fmax(wanted, 0), double(extent - 1)));
    offset = strides ? offset + index * (*strides)[k] : offset * extent + index;
  }
  return offset;
}

double DualRow::gathered(const Step& step, TensorId id, std::size_t x) const {
  const TensorInfo& tensor = graph_->tensor(id);
  const HostTensor* host = tensor.role == TensorRole::constant ? nullptr : captured_->at(id.value);
  const std::int64_t at = offset(step, tensor, host ? &host->layout.strides : nullptr, x);
  if (at < 0) return 0;
  if (!host) return tensor.values.at(std::size_t(at));
  return load_element(tensor.dtype, host->bytes.data() + at * size_in_bytes(tensor.dtype));
}

std::int64_t DualRow::element(const Source& source, std::size_t x) const {
  for (const Step& step : steps_)
    if (step.node == source.node) return offset(step, graph_->tensor(source.tensor), nullptr, x);
  ATTNFUSE_CHECK(false, "a source of another expression");
}

// ---- derivatives ---------------------------------------------------------------------------------------

// Whether what follows from an element of the source reaches other elements.
bool DualRow::mixes(std::size_t source) const {
  std::vector<bool> depends(steps_.size());
  depends[source] = true;
  for (std::size_t s = source + 1; s < steps_.size(); ++s) {
    for (std::size_t operand : steps_[s].operands) depends[s] = depends[s] || depends[operand];
    const Node& node = graph_->node(steps_[s].node);
    if (depends[s] && (as<Partner>(node) || as<Reduce>(node))) return true;
  }
  return false;
}

// Tangents of every step when these elements of the source change by one each.
void DualRow::push(std::size_t source, std::span<const std::size_t> elements) {
  for (Step& step : steps_) {
    for (std::size_t x : step.touched) step.tangents[x] = 0;
    step.touched.clear();
  }
  Step& from = steps_[source];
  from.touched.assign(elements.begin(), elements.end());
  for (std::size_t x : elements) from.tangents[x] = 1;
  for (std::size_t s = source + 1; s < steps_.size(); ++s) {
    touch(steps_[s]);
    for (std::size_t x : steps_[s].touched) differentiate(steps_[s], x);
  }
}

// Which elements of the step change.
void DualRow::touch(Step& step) {
  const Node& node = graph_->node(step.node);
  if (as<Gather>(node)) return;  // by its indices it changes in steps
  for (std::size_t operand : step.operands) {
    const Step& from = steps_[operand];
    if (from.touched.empty()) continue;
    if (!step.wide || !from.wide) {
      step.touched.resize(step.length());
      std::iota(step.touched.begin(), step.touched.end(), 0);
      return;
    }
    const auto* partner = as<Partner>(node);
    for (std::size_t x : from.touched) step.touched.push_back(partner ? mate(*partner, x) : x);
  }
  std::ranges::sort(step.touched);
  step.touched.erase(std::ranges::unique(step.touched).begin(), step.touched.end());
}

void DualRow::differentiate(Step& step, std::size_t x) {
  const Node& node = graph_->node(step.node);
  double& to = step.tangents[x];
  if (const auto* apply = as<Apply>(node)) {
    double values[kMaxArity] = {}, tangents[kMaxArity] = {};
    const std::size_t arity = step.operands.size();
    for (std::size_t k = 0; k < arity; ++k) {
      values[k] = value(step.operands[k], x);
      tangents[k] = change(step.operands[k], x);
    }
    to = tangent(apply->op, {values, arity}, {tangents, arity});
  } else if (const auto* partner = as<Partner>(node)) {
    to = change(step.operands[0], mate(*partner, x));
  } else if (const auto* reduce = as<Reduce>(node)) {
    double sum = 0, largest = 0;
    for (std::size_t d = 0; d < length_; ++d) {
      const bool is_largest = value(step.operands[0], d) == step.values[0];
      largest += is_largest ? 1 : 0;
      if (reduce->op == ReduceOp::sum || is_largest) sum += change(step.operands[0], d);
    }
    to = reduce->op == ReduceOp::sum ? sum : sum / largest;
  } else {
    to = change(step.operands[0], x);  // an output
  }
}

// Sums what the elements of the root that the last push touched bring; a narrow root stands for every
// element.
void DualRow::pull(std::span<const double> gradients, const Receive& receive) {
  if (std::ranges::all_of(gradients, [](double gradient) { return gradient == 0; })) return;
  for (std::size_t s = 0; s < steps_.size(); ++s)
    if (steps_[s].is_source) send(s, gradients, receive);
}

void DualRow::send(std::size_t s, std::span<const double> gradients, const Receive& receive) {
  const auto* gather = as<Gather>(graph_->node(steps_[s].node));
  const Source source{steps_[s].node, gather ? gather->tensor : TensorId{}};
  const std::size_t count = steps_[s].length();
  const Step& root = steps_.back();
  const auto brought = [&](std::size_t x) {
    return gradients[x] == 0 ? 0 : gradients[x] * root.tangents[root.wide ? x : 0];
  };
  if (steps_[s].wide && root.wide && !mixes(s)) {  // all elements at once, each for itself
    std::vector<std::size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    push(s, all);
    for (std::size_t x = 0; x < count; ++x)
      if (gradients[x] != 0) receive(source, x, brought(x));
    return;
  }
  for (std::size_t x = 0; x < count; ++x) {
    push(s, {&x, 1});
    double sum = 0;
    if (!root.wide && !root.touched.empty())
      for (std::size_t y = 0; y < gradients.size(); ++y) sum += brought(y);
    else
      for (std::size_t y : root.touched) sum += brought(y);
    receive(source, x, sum);
  }
}

}  // namespace attnfuse
