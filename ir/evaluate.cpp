#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

std::int64_t size_value(const Graph& graph, Size size, const EvaluateContext& context) {
  const std::optional<int> fixed = graph.info().size(size);
  return fixed ? *fixed : context.sizes[std::size_t(size)];
}

std::int64_t extent_value(const Graph& graph, const Extent& extent, const EvaluateContext& context) {
  const Size* size = std::get_if<Size>(&extent.value);
  return size ? size_value(graph, *size, context) : std::get<std::int64_t>(extent.value);
}

// NaN counts as below.
std::int64_t clamped(double index, std::int64_t extent) {
  if (!(index > 0)) return 0;
  return index >= double(extent) ? extent - 1 : std::int64_t(index);
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, const std::vector<NodeId>& roots) : graph_(&graph) {
  std::vector<std::size_t> slot(graph.size());
  for (NodeId id : elementwise_cone(graph, roots)) {
    slot[id.value] = steps_.size();
    Step step{&graph.node(id), id, slots_.size(), 0};
    if (is_elementwise(*step.node)) {
      for (NodeId operand : graph.operands(id)) slots_.push_back(slot[operand.value]);
      step.count = slots_.size() - step.first;
    }
    steps_.push_back(step);
  }
  for (NodeId root : roots) roots_.push_back(slot[root.value]);
  values_.resize(steps_.size());
}

double Evaluator::operator()(const EvaluateContext& context) {
  for (std::size_t k = 0; k < steps_.size(); ++k) values_[k] = run(steps_[k], context);
  return value(0);
}

double Evaluator::run(const Step& step, const EvaluateContext& context) {
  const std::span<const std::size_t> operands(slots_.data() + step.first, step.count);
  if (const auto* apply = as<Apply>(*step.node)) {
    const ScalarOpInfo& op = info(apply->op);
    ATTNFUSE_CHECK(operands.size() == std::size_t(op.arity), "an operation has the wrong number of operands");
    double x[kMaxArity] = {};
    for (std::size_t k = 0; k < operands.size(); ++k) x[k] = values_[operands[k]];
    return op.value({x, operands.size()});
  }
  if (const auto* constant = as<Constant>(*step.node)) return constant->value;
  if (const auto* index = as<Index>(*step.node)) return double(context.index[std::size_t(index->axis)]);
  if (const auto* size = as<SizeOf>(*step.node)) return double(size_value(*graph_, size->size, context));
  if (const auto* tensor = as<Gather>(*step.node)) return gather(tensor->tensor, operands, context);
  ATTNFUSE_CHECK(context.leaf, "an expression has a leaf, and the context supplies none");
  return context.leaf(step.id);
}

double Evaluator::gather(TensorId id, std::span<const std::size_t> indices, const EvaluateContext& context) {
  const TensorInfo& tensor = graph_->tensor(id);
  ATTNFUSE_CHECK(indices.size() == tensor.shape.size(), "a gather has the wrong number of indices");
  index_.resize(indices.size());
  std::size_t offset = 0;
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const std::int64_t extent = extent_value(*graph_, tensor.shape[k], context);
    if (extent <= 0) return 0;
    index_[k] = clamped(values_[indices[k]], extent);
    offset = offset * std::size_t(extent) + std::size_t(index_[k]);
  }
  if (tensor.role == TensorRole::constant) return tensor.values.at(offset);
  ATTNFUSE_CHECK(context.element, "an expression reads a tensor, and the context supplies none");
  return context.element(id, index_);
}

double evaluate(const Graph& graph, NodeId root, const EvaluateContext& context) {
  return Evaluator(graph, {root})(context);
}

}  // namespace attnfuse
