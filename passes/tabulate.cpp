// tabulate: every maximal costly expression of d alone becomes a constant table, computed in double
// precision. RoPE frequencies, whatever their scaling, cost one load. After expand_partner, whose index
// arithmetic it absorbs; cheap selections and comparisons of d stay, they cost less than a load.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

constexpr int kLoadCost = 4;  // of one table element, in simple operations

int cost(ScalarOp op) {
  constexpr ScalarOp kCostly[] = {ScalarOp::div,  ScalarOp::exp,  ScalarOp::exp2,  ScalarOp::log,
                                  ScalarOp::log2, ScalarOp::sqrt, ScalarOp::rsqrt, ScalarOp::tanh,
                                  ScalarOp::sin,  ScalarOp::cos,  ScalarOp::idiv};
  return std::ranges::find(kCostly, op) != std::end(kCostly) ? kLoadCost : 1;
}

// Depends on d and on nothing that is known only when the kernel runs.
bool is_closed(const Graph& graph, NodeId root) {
  if (graph.node(root).axes != Axes{Axis::d}) return false;
  for (NodeId id : cone(graph, {root})) {
    const Node& node = graph.node(id);
    const auto* size = as<SizeOf>(node);
    const auto* gather = as<Gather>(node);
    const bool is_constant_table = gather && graph.tensor(gather->tensor).role == TensorRole::constant;
    const bool is_fixed_size = size && graph.info().size(size->size);
    if (!as<Constant>(node) && !as<Index>(node) && !as<Apply>(node) && !is_fixed_size && !is_constant_table)
      return false;
  }
  return true;
}

bool is_costly(const Graph& graph, NodeId root) {
  int total = 0;
  for (NodeId id : cone(graph, {root}))
    if (const auto* apply = as<Apply>(graph.node(id))) total += cost(apply->op);
  return total >= kLoadCost;
}

// The longest d of the stages. A value stage that is shorter reads the beginning of a table.
int extent(const ProgramInfo& info) { return std::max(info.head_dim, info.v_head_dim); }

std::vector<double> values_along_d(const Graph& graph, NodeId root) {
  std::vector<double> values;
  Evaluator evaluator(graph, {root});
  EvaluateContext context;
  for (int d = 0; d < extent(graph.info()); ++d) {
    context.index[std::size_t(Axis::d)] = d;
    values.push_back(evaluator(context));
  }
  return values;
}

bool representable(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(float(value)); });
}

std::vector<bool> used_by_open(const Graph& graph, const std::vector<bool>& closed) {
  std::vector<bool> result(graph.size());
  for (NodeId user : cone(graph, graph.outputs()))
    if (!closed[user.value])
      for (NodeId operand : graph.operands(user)) result[operand.value] = true;
  return result;
}

// The constant table of these values; equal tables are one.
TensorId table(Graph& graph, ValueType type, std::vector<double> values) {
  const DType dtype = type == ValueType::f32 ? DType::f32 : DType::i32;
  int count = 0;
  for (std::uint32_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorInfo& tensor = graph.tensor({t});
    if (tensor.role != TensorRole::constant) continue;
    if (tensor.dtype == dtype && tensor.values == values) return {t};
    ++count;
  }
  std::string name;
  do name = fmt::format("d_table{}", count++);
  while (graph.find_tensor(name).valid());
  const std::vector<Extent> shape{Extent{std::int64_t(values.size())}};
  return graph.add_tensor({name, dtype, TensorRole::constant, shape, false, std::move(values), {}});
}

}  // namespace

Result<Graph> tabulate(const Graph& graph) {
  std::vector<bool> closed(graph.size());
  for (NodeId id : cone(graph, graph.outputs())) closed[id.value] = is_closed(graph, id);
  const std::vector<bool> maximal = used_by_open(graph, closed);
  return rewrite_live(graph, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId>) -> NodeId {
    const Node& node = from.node(id);
    if (!closed[id.value] || !maximal[id.value] || node.type == ValueType::boolean || !is_costly(from, id))
      return {};
    std::vector<double> values = values_along_d(from, id);
    if (!representable(values)) return {};
    return to.add(Gather{table(to, node.type, std::move(values))}, {to.index(Axis::d)});
  });
}

}  // namespace attnfuse
