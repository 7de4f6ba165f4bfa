#include "runtime/evaluate_gradient.h"

#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"
#include "ir/gradient.h"
#include "runtime/reference.h"
#include "runtime/row_expression.h"

namespace attnfuse {
namespace {

std::size_t number(Axis axis) { return std::size_t(axis); }

// One number for every position of its axes.
struct Values {
  std::int64_t strides[6] = {};  // by Axis; 0: does not depend on it
  std::vector<double> numbers;

  double operator()(const Position& at) const { return numbers[offset(at)]; }
  double& operator()(const Position& at) { return numbers[offset(at)]; }

 private:
  std::size_t offset(const Position& at) const {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < 6; ++k) offset += at.index[k] * strides[k];
    return std::size_t(offset);
  }
};

class GradientRun {
 public:
  GradientRun(const Graph& graph, const HostTensors& inputs, const NamedValues& rows, const Sizes& sizes)
      : graph_(graph),
        inputs_(inputs),
        rows_(rows),
        sizes_(size_values(graph.info(), sizes)),
        values_(graph.size()),
        scattered_(graph.size()) {}

  NamedValues run() {
    NamedValues outputs;
    for (NodeId id : cone(graph_, graph_.outputs())) {
      const Node& node = graph_.node(id);
      if (const auto* output = as<Output>(node))
        outputs[output->name] = gathered_output(id, output->name);
      else if (const auto* scatter = as<Scatter>(node))
        scattered_[id.value] = scatter_into(id, *scatter);
      else
        values_[id.value] = evaluate(id);
    }
    return outputs;
  }

 private:
  std::int64_t extent(Axis axis) const {
    switch (axis) {
      case Axis::b:
        return sizes_[Size::batch];
      case Axis::h:
        return sizes_[Size::heads];
      case Axis::g:
        return sizes_[Size::kv_heads];
      case Axis::i:
        return sizes_[Size::sq];
      case Axis::j:
        return sizes_[Size::skv];
      case Axis::d:  // what is longer than a value's own row is never read
        return std::max(sizes_[Size::head_dim], sizes_[Size::v_head_dim]);
    }
    ATTNFUSE_CHECK(false, "not an axis");
  }
  std::int64_t extent(const Extent& extent) const { return extent_of(extent, sizes_); }
  std::int64_t row_length(NodeId id) const { return sizes_[row_size(graph_, id)]; }
  Axes axes(NodeId id) const { return graph_.node(id).axes; }
  const Values& value(NodeId id, int operand) const { return values_[graph_.operand(id, operand).value]; }

  // Every position of the axes, d below `row`; heads bring their key head along.
  template <class Visit>
  void for_each(Axes axes, std::int64_t row, Visit visit) const {
    std::int64_t extents[6];
    for (Axis axis : kAllAxes) extents[number(axis)] = axes.has(axis) ? extent(axis) : 1;
    if (axes.has(Axis::d)) extents[number(Axis::d)] = row;
    if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent == 0; })) return;
    const std::int64_t group = sizes_[Size::heads] / sizes_[Size::kv_heads];
    Position at;
    while (true) {
      if (!axes.has(Axis::g)) at[Axis::g] = at[Axis::h] / group;
      visit(at);
      if (!axes.has(Axis::g)) at[Axis::g] = 0;
      std::size_t k = 6;
      while (k > 0 && ++at.index[k - 1] == extents[k - 1]) at.index[--k] = 0;
      if (k == 0) return;
    }
  }

  Values space(Axes axes) const {
    Values values;
    std::int64_t count = 1;
    for (std::size_t k = 6; k-- > 0;) {
      if (!axes.has(kAllAxes[k])) continue;
      values.strides[k] = count;
      count *= extent(kAllAxes[k]);
    }
    values.numbers.resize(std::size_t(count));
    return values;
  }

  template <class At>
  Values computed(NodeId id, At at_position) const {
    Values values = space(axes(id));
    for_each(axes(id), extent(Axis::d), [&](const Position& at) { values(at) = at_position(at); });
    return values;
  }

  Values evaluate(NodeId id) {
    const Node& node = graph_.node(id);
    return std::visit(overloaded{
                          [&](const Input& input) { return read(graph_.tensor(input.tensor)); },
                          [&](const Constant& constant) {
                            return computed(id, [&](const Position&) { return constant.value; });
                          },
                          [&](const SizeOf& size) {
                            return computed(id, [&](const Position&) { return double(sizes_[size.size]); });
                          },
                          [&](const Index& index) {
                            return computed(id, [&](const Position& at) { return double(at[index.axis]); });
                          },
                          [&](const Apply& apply) { return applied(id, info(apply.op)); },
                          [&](const Gather& gather) {
                            return computed(
                                id, [&](const Position& at) { return element(id, gather.tensor, 0, at); });
                          },
                          [&](const Partner& partner) {
                            return computed(id, [&](Position at) {
                              at[Axis::d] = std::int64_t(partner_of(partner, std::size_t(at[Axis::d])));
                              return value(id, 0)(at);
                            });
                          },
                          [&](const Reduce& reduce) { return reduced(id, reduce.op); },
                          [&](const Scores&) { return product(id); },
                          [&](const Contract&) { return contracted(id); },
                          [&](const SumOver& sum) { return summed(id, sum); },
                          [&](const Variable&) { return forbidden(id); },
                          [&](const Normalize&) { return forbidden(id); },
                          [&](const Attend&) { return forbidden(id); },
                          [&](const LogSumExp&) { return forbidden(id); },
                          [&](const RowMax&) { return forbidden(id); },
                          [&](const Output&) { return forbidden(id); },
                          [&](const Scatter&) { return forbidden(id); },
                      },
                      node.kind);
  }

  Values forbidden(NodeId) const {
    ATTNFUSE_CHECK(false, "a node that verify() does not let into a gradient graph");
  }

  Values read(const TensorInfo& tensor) const {
    const bool is_key = tensor.role == TensorRole::key || tensor.role == TensorRole::value;
    const bool has_dim = tensor.shape.size() == 4;
    const Axes axes = is_key    ? Axes{Axis::b, Axis::g, Axis::j, Axis::d}
                      : has_dim ? Axes{Axis::b, Axis::h, Axis::i, Axis::d}
                                : Axes{Axis::b, Axis::h, Axis::i};
    const bool is_row = tensor.role == TensorRole::saved || tensor.role == TensorRole::upstream;
    Values values = space(axes);
    if (tensor.role == TensorRole::upstream && !rows_.contains(tensor.name)) return values;
    std::size_t next = 0;
    for_each(axes, has_dim ? extent(tensor.shape[3]) : 1, [&](const Position& at) {
      const std::int64_t index[] = {at[Axis::b], at[is_key ? Axis::g : Axis::h],
                                    at[is_key ? Axis::j : Axis::i], at[Axis::d]};
      values(at) = is_row ? rows_.at(tensor.name).at(next++) : inputs_.at(tensor.name).get({index, 4});
    });
    return values;
  }

  Values applied(NodeId id, const ScalarOpInfo& op) const {
    const std::vector<NodeId> operands = graph_.operands(id);
    return computed(id, [&](const Position& at) {
      double x[kMaxArity] = {};
      for (std::size_t k = 0; k < operands.size(); ++k) x[k] = values_[operands[k].value](at);
      return op.value({x, operands.size()});
    });
  }

  // Row-major offset of what the operands from `first` on index; -1 in an empty tensor.
  std::int64_t offset(NodeId id, const TensorInfo& tensor, int first, const Position& at,
                      std::vector<std::int64_t>& index) const {
    std::int64_t offset = 0;
    index.clear();
    for (std::size_t k = 0; k < tensor.shape.size(); ++k) {
      const std::int64_t length = extent(tensor.shape[k]);
      if (length == 0) return -1;
      const double wanted = value(id, first + int(k))(at);
      index.push_back(std::int64_t(std::fmin(std::fmax(wanted, 0), double(length - 1))));
      offset = offset * length + index.back();
    }
    return offset;
  }

  double element(NodeId id, TensorId tensor, int first, const Position& at) const {
    const TensorInfo& info = graph_.tensor(tensor);
    std::vector<std::int64_t> index;
    const std::int64_t from = offset(id, info, first, at, index);
    if (from < 0) return 0;
    return info.role == TensorRole::constant ? info.values.at(std::size_t(from))
                                             : inputs_.at(info.name).get(index);
  }

  Values reduced(NodeId id, ReduceOp op) const {
    const std::int64_t length = row_length(graph_.operand(id, 0));
    return computed(id, [&](Position at) {
      double result = identity(op);
      for (at[Axis::d] = 0; at[Axis::d] < length; ++at[Axis::d])
        result = combined(op, result, value(id, 0)(at));
      return result;
    });
  }

  Values product(NodeId id) const {
    const std::int64_t length = row_length(graph_.operand(id, 1));
    return computed(id, [&](Position at) {
      double sum = 0;
      for (at[Axis::d] = 0; at[Axis::d] < length; ++at[Axis::d]) sum += value(id, 0)(at) * value(id, 1)(at);
      return sum;
    });
  }

  Values contracted(NodeId id) const {
    Values sums = space(axes(id));
    const Axes pairs{Axis::b, Axis::h, Axis::i, Axis::j};
    const std::int64_t length = row_length(graph_.operand(id, 1));
    for_each(pairs, 1, [&](Position at) {
      if (value(id, 2)(at) == 0) return;
      const double factor = value(id, 0)(at);
      for (at[Axis::d] = 0; at[Axis::d] < length; ++at[Axis::d]) sums(at) += factor * value(id, 1)(at);
    });
    return sums;
  }

  Values summed(NodeId id, const SumOver& sum) const {
    Values sums = space(axes(id));
    const Axes all = axes(id) | sum.over;
    for_each(all, sum.over.has(Axis::d) ? sizes_[sum.row] : extent(Axis::d), [&](const Position& at) {
      if (value(id, 1)(at) != 0) sums(at) += value(id, 0)(at);
    });
    return sums;
  }

  std::vector<double> scatter_into(NodeId id, const Scatter& scatter) const {
    const TensorInfo& info = graph_.tensor(scatter.tensor);
    std::vector<double> sums(element_count(info));
    const int mask = int(info.shape.size()) + 1;
    std::vector<std::int64_t> index;
    for_each(scatter.over, sizes_[scatter.row], [&](const Position& at) {
      if (value(id, mask)(at) == 0) return;
      const std::int64_t to = offset(id, info, 1, at, index);
      if (to >= 0) sums[std::size_t(to)] += value(id, 0)(at);
    });
    return sums;
  }

  std::size_t element_count(const TensorInfo& tensor) const {
    std::int64_t count = 1;
    for (const Extent& length : tensor.shape) count *= extent(length);
    return std::size_t(count);
  }

  std::vector<double> gathered_output(NodeId id, const std::string& name) const {
    const TensorInfo* tensor = nullptr;
    for (const TensorInfo& other : graph_.tensors())
      if (gradient_name(other.name) == name) tensor = &other;
    ATTNFUSE_CHECK(tensor, "the gradient of no tensor");
    if (tensor->role == TensorRole::captured) {
      std::vector<double> sum(element_count(*tensor));
      for (NodeId operand : graph_.operands(id))
        for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += scattered_[operand.value][n];
      return sum;
    }
    std::vector<double> elements;
    const Axes axes = tensor->role == TensorRole::query ? Axes{Axis::b, Axis::h, Axis::i, Axis::d}
                                                        : Axes{Axis::b, Axis::g, Axis::j, Axis::d};
    for_each(axes, extent(tensor->shape[3]),
             [&](const Position& at) { elements.push_back(value(id, 0)(at)); });
    return elements;
  }

  const Graph& graph_;
  const HostTensors& inputs_;
  const NamedValues& rows_;
  SizeValues sizes_;
  std::vector<Values> values_;                  // by node
  std::vector<std::vector<double>> scattered_;  // by node
};

}  // namespace

Result<NamedValues> evaluate_gradient(const Graph& gradient, const HostTensors& inputs,
                                      const NamedValues& rows) {
  ATTNFUSE_CHECK(is_gradient(gradient), "a graph that computes no gradients");
  Graph program(gradient.info());  // its tensors alone
  for (const TensorInfo& tensor : gradient.tensors())
    if (tensor.role != TensorRole::saved && tensor.role != TensorRole::upstream) program.add_tensor(tensor);
  const auto sizes = check_inputs(program, inputs);
  if (!sizes) return sizes.errors();
  return GradientRun(gradient, inputs, rows, *sizes).run();
}

}  // namespace attnfuse
