#include "runtime/row_expression.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace attnfuse {
namespace {

bool is_leaf(const Node& node) {
  return as<Input>(node) || as<Scores>(node) || as<Normalize>(node) || as<Attend>(node) ||
         as<LogSumExp>(node) || as<RowMax>(node) || as<Contract>(node) || as<SumOver>(node) ||
         as<Scatter>(node);
}

// Nodes that `root` needs, down to leaves. Operands have smaller numbers than their users.
std::vector<NodeId> needed(const Graph& graph, NodeId root) {
  std::vector<bool> marked(root.value + 1, false);
  marked[root.value] = true;
  for (std::uint32_t v = root.value + 1; v-- > 0;)
    if (marked[v] && !is_leaf(graph.node({v})))
      for (NodeId operand : graph.operands({v})) marked[operand.value] = true;
  std::vector<NodeId> nodes;
  for (std::uint32_t v = 0; v <= root.value; ++v)
    if (marked[v]) nodes.push_back({v});
  return nodes;
}

}  // namespace

std::size_t partner_of(const Partner& partner, std::size_t d) {
  const auto count = std::size_t(partner.count);
  if (d >= count) return d;
  switch (partner.pairs) {
    case RotaryPairs::half:
      return d < count / 2 ? d + count / 2 : d - count / 2;
    case RotaryPairs::interleaved:
      return d ^ 1;
  }
  return d;
}

std::int64_t extent_of(const Extent& extent, const SizeValues& sizes) {
  return std::visit(overloaded{[&](Size size) { return sizes[size]; }, [](std::int64_t n) { return n; }},
                    extent.value);
}

double combined(ReduceOp op, double so_far, double value) {
  switch (op) {
    case ReduceOp::sum:
      return so_far + value;
    case ReduceOp::max:
      return std::fmax(so_far, value);
    case ReduceOp::maximum:
      return std::isnan(value) || so_far < value ? value : so_far;
  }
  ATTNFUSE_CHECK(false, "not a reduction");
}

SizeValues size_values(const ProgramInfo& info, const Sizes& sizes) {
  return {{sizes.batch, info.heads, info.kv_heads, sizes.sq, sizes.skv, info.head_dim, info.v_head_dim}};
}

RowExpression::RowExpression(const Graph& graph, NodeId root, Axis along, std::int64_t length,
                             const SizeValues& sizes, const CapturedTensors& captured, bool in_f32)
    : graph_(&graph),
      along_(along),
      length_(std::size_t(length)),
      sizes_(sizes),
      captured_(&captured),
      in_f32_(in_f32) {
  std::vector<std::size_t> step_of(graph.size());
  for (NodeId id : needed(graph, root)) {
    const Node& node = graph.node(id);
    Step step{id, {}, node.axes.has(along), node.axes.within({along}) && !is_leaf(node), {}};
    if (is_leaf(node))
      reads_leaf_ = true;
    else
      for (NodeId operand : graph.operands(id)) {
        step.operands.push_back(step_of[operand.value]);
        step.fixed = step.fixed && steps_[step.operands.back()].fixed;
      }
    step.values.resize(step.wide ? length_ : 1);
    step_of[id.value] = steps_.size();
    steps_.push_back(std::move(step));
  }
  row_.resize(length_);
}

std::span<const double> RowExpression::operator()(const Position& at, std::span<const double> leaf) {
  for (Step& step : steps_)
    if (!started_ || !step.fixed) evaluate(step, at, leaf);
  started_ = true;
  const Step& root = steps_.back();
  if (root.wide) return root.values;
  std::ranges::fill(row_, root.values[0]);
  return row_;
}

void RowExpression::evaluate(Step& step, const Position& at, std::span<const double> leaf) {
  const Node& node = graph_->node(step.node);
  const auto fill = [&](auto&& value) {
    for (std::size_t x = 0; x < step.values.size(); ++x) step.values[x] = value(x);
  };
  const auto copy_leaf = [&](const auto&) {
    const auto bound = bound_.find(step.node);
    const std::span<const double> row = bound == bound_.end() ? leaf : bound->second;
    ATTNFUSE_CHECK(row.size() >= step.values.size(), "an expression reads a value that is not at hand");
    std::copy_n(row.begin(), step.values.size(), step.values.begin());
  };
  std::visit(
      overloaded{
          [&](const Constant& constant) { fill([&](std::size_t) { return constant.value; }); },
          [&](const SizeOf& size) { fill([&](std::size_t) { return double(sizes_[size.size]); }); },
          [&](const Index& index) {
            fill([&](std::size_t x) { return index.axis == along_ ? double(x) : double(at[index.axis]); });
          },
          [&](const Apply& apply) {
            const ScalarOpInfo& op = info(apply.op);
            double x[kMaxArity] = {};
            const std::size_t arity = step.operands.size();
            fill([&](std::size_t n) {
              for (std::size_t operand = 0; operand < arity; ++operand)
                x[operand] = element(step, operand, n);
              return op.value({x, arity});
            });
          },
          [&](const Gather& gather) {
            fill([&](std::size_t x) { return gathered(step, gather.tensor, x); });
          },
          [&](const Partner& partner) {
            fill([&](std::size_t x) { return element(step, 0, step.wide ? partner_of(partner, x) : 0); });
          },
          [&](const Reduce& reduce) { fill([&](std::size_t) { return reduced(step, reduce.op); }); },
          [&](const Output&) { fill([&](std::size_t x) { return element(step, 0, x); }); },
          [&](const Variable& variable) {
            ATTNFUSE_CHECK(false, "a program has no variables: " + variable.name);
          },
          [&](const Input& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const Scores& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const Normalize& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const Attend& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const LogSumExp& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const RowMax& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const Contract& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const SumOver& leaf_kind) { copy_leaf(leaf_kind); },
          [&](const Scatter& leaf_kind) { copy_leaf(leaf_kind); },
      },
      node.kind);
  if (in_f32_ && node.type == ValueType::f32)
    for (double& value : step.values) value = double(float(value));
}

// Indices are clamped to the shape; nothing can be read from an empty tensor.
double RowExpression::gathered(const Step& step, TensorId id, std::size_t x) const {
  const TensorInfo& tensor = graph_->tensor(id);
  const HostTensor* host = tensor.role == TensorRole::constant ? nullptr : captured_->at(id.value);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const std::int64_t extent = extent_of(tensor.shape[axis], sizes_);
    if (extent == 0) return 0;
    const auto index = std::int64_t(std::fmin(std::fmax(element(step, axis, x), 0), double(extent - 1)));
    offset = host ? offset + index * host->layout.strides[axis] : offset * extent + index;
  }
  if (!host) return tensor.values.at(std::size_t(offset));
  return load_element(tensor.dtype, host->bytes.data() + offset * size_in_bytes(tensor.dtype));
}

double RowExpression::reduced(const Step& step, ReduceOp op) const {
  double result = identity(op);
  for (std::size_t x = 0; x < length_; ++x) {
    result = combined(op, result, element(step, 0, x));
    if (in_f32_) result = double(float(result));
  }
  return result;
}

}  // namespace attnfuse
