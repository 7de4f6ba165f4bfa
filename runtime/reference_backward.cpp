#include "runtime/reference_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "ir/algorithm.h"
#include "runtime/dual_row.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Row = std::span<const double>;

double dot(Row a, Row b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
  return sum;
}

void add_scaled(std::span<double> to, double factor, Row from) {
  for (std::size_t d = 0; d < to.size(); ++d) to[d] += factor * from[d];
}

// A query, key or value tensor: what its transform makes of it, and the gradient of that.
struct Transformed {
  TensorId tensor;
  std::optional<DualRow> transform;
  std::size_t dim = 0;
  std::vector<double> values, gradients;
  Row row(std::size_t n) const { return Row(values).subspan(n * dim, dim); }
  std::span<double> gradient(std::size_t n) { return std::span(gradients).subspan(n * dim, dim); }
};

// One softmax, or what stands in its place, over one row of scores.
struct Normalized {
  NormalizeKind kind = NormalizeKind::softmax;
  std::vector<double> weights;  // where keys are allowed
  double lse = 0, row_sum = 0, sink_share = 0;
  int max_key = -1;  // the first with the largest score; -1: the sink, or none

  void normalize(Row scores, Row allowed, const double* sink);
  // Gradients of the scores, and of the sink, from those of weights, lse and largest score.
  double pull(Row scores, Row allowed, Row weight_gradients, double lse_gradient, double max_gradient,
              std::span<double> score_gradients) const;
};

void Normalized::normalize(Row scores, Row allowed, const double* sink) {
  double maximum = sink ? *sink : -kInfinity, sum = 0;
  max_key = -1;
  row_sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    weights[j] = 0;
    if (allowed[j] == 0) continue;
    row_sum += scores[j];
    if (std::isnan(maximum) || scores[j] <= maximum) continue;
    maximum = scores[j];
    max_key = int(j);
  }
  const bool is_softmax = kind == NormalizeKind::softmax || kind == NormalizeKind::softmax_sink;
  const bool is_empty = is_softmax && maximum == -kInfinity;
  sink_share = 0;
  lse = -kInfinity;
  if (is_empty) return;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (allowed[j] == 0) continue;
    weights[j] = is_softmax ? std::exp(scores[j] - maximum) : scores[j];
    sum += weights[j];
  }
  if (sink) sum += std::exp(*sink - maximum);
  if (kind == NormalizeKind::none) sum = 1;
  if (kind == NormalizeKind::retention) sum = std::max(std::abs(row_sum), 1.0);
  for (double& weight : weights) weight /= sum;
  if (sink) sink_share = std::exp(*sink - maximum) / sum;
  lse = is_softmax ? maximum + std::log(sum) : std::log(sum);
}

double Normalized::pull(Row scores, Row allowed, Row weight_gradients, double lse_gradient,
                        double max_gradient, std::span<double> score_gradients) const {
  double expected = 0;  // of the weights' gradients under the weights
  for (std::size_t j = 0; j < weights.size(); ++j)
    if (allowed[j] != 0) expected += weights[j] * weight_gradients[j];
  const double size = std::abs(row_sum);
  for (std::size_t j = 0; j < weights.size(); ++j) {
    score_gradients[j] = 0;
    if (allowed[j] == 0) continue;
    switch (kind) {
      case NormalizeKind::softmax:
      case NormalizeKind::softmax_sink:
        // dw_k / dx_j = w_k (1 if j = k, minus w_j); dlse / dx_j = w_j
        if (weights[j] != 0)
          score_gradients[j] = weights[j] * (weight_gradients[j] - expected + lse_gradient);
        break;
      case NormalizeKind::none:
        score_gradients[j] = weight_gradients[j];
        break;
      case NormalizeKind::retention: {
        // w_k = x_k / |s| where the sum s is longer than 1: d|s| / dx_j = sign(s); lse = log |s|
        const double divisor = size > 1 ? size : 1;
        double through_sum = 0;
        if (size > 1)
          for (std::size_t k = 0; k < weights.size(); ++k)
            if (allowed[k] != 0) through_sum -= weight_gradients[k] * scores[k] / (row_sum * size);
        if (size > 1) through_sum += lse_gradient / row_sum;
        score_gradients[j] = weight_gradients[j] / divisor + through_sum;
        break;
      }
    }
  }
  if (max_key >= 0) score_gradients[std::size_t(max_key)] += max_gradient;
  const double sink_gradient = sink_share * (lse_gradient - expected);
  return sink_gradient + (max_key < 0 ? max_gradient : 0);
}

// Queries and keys whose products weigh the values.
struct Head {
  NodeId scores, normalize, attend;
  std::string suffix;  // of saved names
  Transformed query, key;
  DualRow score, weight;
  std::optional<DualRow> sink;
  Normalized row;
  bool has_lse = false, has_max_logit = false;
  std::vector<double> dots = {}, scored = {}, weighted = {}, result = {};
  std::vector<double> result_gradient = {}, weight_gradient = {}, score_gradient = {}, dot_gradient = {};
};

class BackwardRun {
 public:
  BackwardRun(const Graph& graph, const HostTensors& inputs, const Sizes& sizes, const NamedValues& upstream);
  ReferenceGradients run();

 private:
  DualRow expression(NodeId root, Axis along, std::int64_t length) {
    return {graph_, root, along, length, size_values_, captured_};
  }
  Transformed transformed(NodeId root);
  Head make_head(NodeId attend, std::size_t n);
  template <class Visit>
  void for_each_row(const Transformed& tensor, Visit visit);
  std::vector<double> input_row(const Transformed& tensor, std::size_t row) const;
  void pull_transform(Transformed& tensor);

  void attend(Head& head, Row allowed, std::size_t query_row, std::size_t first_key);
  void pull_row(Head& head, Row allowed, std::size_t query_row, std::size_t first_key);
  void visit_row(std::size_t query_row);
  // The gradient of a captured element.
  void receive(const DualRow& expression, const DualRow::Source& source, std::size_t x, double gradient);
  double upstream(const std::string& name, std::size_t n) const;
  Row leaf(NodeId id) const;

  const Graph& graph_;
  Sizes sizes_;
  SizeValues size_values_;
  CapturedTensors captured_;
  const NamedValues& upstream_;
  std::vector<Head> heads_;
  Transformed value_;
  std::optional<DualRow> mask_, output_;
  Position at_;
  ReferenceGradients result_;
};

BackwardRun::BackwardRun(const Graph& graph, const HostTensors& inputs, const Sizes& sizes,
                         const NamedValues& upstream)
    : graph_(graph), sizes_(sizes), size_values_(size_values(graph.info(), sizes)), upstream_(upstream) {
  for (const TensorInfo& tensor : graph.tensors()) {
    const auto found = inputs.find(tensor.name);
    captured_.push_back(found == inputs.end() ? nullptr : &found->second);
    const bool wanted = tensor.role != TensorRole::captured || tensor.grad;
    if (captured_.back() && wanted)
      result_.gradients[tensor.name].assign(std::size_t(found->second.layout.element_count()), 0);
  }
  for (NodeId id : cone(graph, graph.outputs()))
    if (as<Attend>(graph.node(id))) heads_.push_back(make_head(id, heads_.size()));
  ATTNFUSE_CHECK(!heads_.empty(), "a program without a product with the values");
  value_ = transformed(graph.operand(heads_[0].attend, 1));
  mask_ = expression(graph.operand(heads_[0].normalize, 1), Axis::j, sizes.skv);
  output_ = expression(graph.output("o"), Axis::d, graph.info().v_head_dim);
}

Head BackwardRun::make_head(NodeId attend, std::size_t n) {
  const NodeId weights = graph_.operand(attend, 0);
  NodeId normalize, scores;
  for (NodeId id : elementwise_cone(graph_, {weights}))
    if (as<Normalize>(graph_.node(id))) normalize = id;
  for (NodeId id : elementwise_cone(graph_, {graph_.operand(normalize, 0)}))
    if (as<Scores>(graph_.node(id))) scores = id;
  const auto keys = std::size_t(sizes_.skv), dim = std::size_t(graph_.info().v_head_dim);
  Head head{scores,
            normalize,
            attend,
            n == 0 ? std::string() : fmt::format("{}", n + 1),
            {},
            {},
            expression(graph_.operand(normalize, 0), Axis::j, sizes_.skv),
            expression(weights, Axis::j, sizes_.skv),
            {},
            {as<Normalize>(graph_.node(normalize))->kind, std::vector<double>(keys), 0, 0, 0, -1}};
  if (scores.valid()) head.query = transformed(graph_.operand(scores, 0));
  if (scores.valid()) head.key = transformed(graph_.operand(scores, 1));
  if (head.row.kind == NormalizeKind::softmax_sink)
    head.sink = expression(graph_.operand(normalize, 2), Axis::d, 1);
  for (NodeId output : graph_.outputs()) {
    const NodeId value = graph_.operand(output, 0);
    const Node& node = graph_.node(value);
    if (as<LogSumExp>(node) && graph_.operand(value, 0) == normalize) head.has_lse = true;
    if (as<RowMax>(node) && graph_.operand(value, 0) == normalize) head.has_max_logit = true;
  }
  for (auto* row : {&head.dots, &head.scored, &head.weighted, &head.weight_gradient, &head.score_gradient,
                    &head.dot_gradient})
    row->resize(keys);
  head.result.resize(dim);
  head.result_gradient.resize(dim);
  return head;
}

// ---- transforms before the product ---------------------------------------------------------------------

template <class Visit>
void BackwardRun::for_each_row(const Transformed& tensor, Visit visit) {
  const std::vector<std::int64_t>& shape = captured_.at(tensor.tensor.value)->layout.shape;
  const bool is_query = graph_.tensor(tensor.tensor).role == TensorRole::query;
  std::size_t n = 0;
  Position at;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t head = 0; head < shape[1]; ++head)
      for (std::int64_t position = 0; position < shape[2]; ++position) {
        at[Axis::b] = b;
        at[is_query ? Axis::h : Axis::g] = head;
        at[is_query ? Axis::i : Axis::j] = position;
        visit(at, n++);
      }
}

std::vector<double> BackwardRun::input_row(const Transformed& tensor, std::size_t row) const {
  const HostTensor& host = *captured_.at(tensor.tensor.value);
  const std::vector<std::int64_t>& shape = host.layout.shape;
  const auto n = std::int64_t(row);
  std::vector<double> values(tensor.dim);
  for (std::size_t d = 0; d < values.size(); ++d) {
    const std::int64_t index[] = {n / shape[2] / shape[1], n / shape[2] % shape[1], n % shape[2],
                                  std::int64_t(d)};
    values[d] = host.get(index);
  }
  return values;
}

Transformed BackwardRun::transformed(NodeId root) {
  Transformed result;
  for (NodeId id : cone(graph_, {root}))
    if (const auto* input = as<Input>(graph_.node(id))) result.tensor = input->tensor;
  const HostTensor* host = captured_.at(result.tensor.value);
  result.dim = std::size_t(host->layout.shape[3]);
  result.transform = expression(root, Axis::d, host->layout.shape[3]);
  result.gradients.resize(std::size_t(host->layout.element_count()));
  for_each_row(result, [&](const Position& at, std::size_t n) {
    const std::vector<double> row = input_row(result, n);
    for (double element : (*result.transform)(at, [&](NodeId) { return Row(row); }))
      result.values.push_back(element);
  });
  return result;
}

void BackwardRun::pull_transform(Transformed& tensor) {
  if (!tensor.transform) return;
  std::vector<double>& to = result_.gradients.at(graph_.tensor(tensor.tensor).name);
  for_each_row(tensor, [&](const Position& at, std::size_t n) {
    const std::vector<double> row = input_row(tensor, n);
    (*tensor.transform)(at, [&](NodeId) { return Row(row); });
    tensor.transform->pull(tensor.gradient(n),
                           [&](const DualRow::Source& source, std::size_t x, double gradient) {
                             if (as<Input>(graph_.node(source.node)))
                               to[n * tensor.dim + x] += gradient;
                             else
                               receive(*tensor.transform, source, x, gradient);
                           });
  });
}

// ---- one row -------------------------------------------------------------------------------------------

Row BackwardRun::leaf(NodeId id) const {
  for (const Head& head : heads_) {
    if (id == head.scores) return head.dots;
    if (id == head.normalize) return head.row.weights;
    if (id == head.attend) return head.result;
  }
  ATTNFUSE_CHECK(false, "an expression reads what no row has");
}

void BackwardRun::receive(const DualRow& expression, const DualRow::Source& source, std::size_t x,
                          double gradient) {
  ATTNFUSE_CHECK(source.tensor.valid(), "a gradient of what has none");
  const std::int64_t element = expression.element(source, x);
  if (element >= 0) result_.gradients.at(graph_.tensor(source.tensor).name)[std::size_t(element)] += gradient;
}

double BackwardRun::upstream(const std::string& name, std::size_t n) const {
  const auto found = upstream_.find(name);
  return found == upstream_.end() ? 0 : found->second.at(n);
}

void BackwardRun::attend(Head& head, Row allowed, std::size_t query_row, std::size_t first_key) {
  const auto leaves = [&](NodeId id) { return leaf(id); };
  if (head.scores.valid())
    for (std::size_t j = 0; j < allowed.size(); ++j)
      if (allowed[j] != 0) head.dots[j] = dot(head.query.row(query_row), head.key.row(first_key + j));
  const Row scores = head.score(at_, leaves);
  std::ranges::copy(scores, head.scored.begin());
  const double* sink = head.sink ? (*head.sink)(at_).data() : nullptr;
  head.row.normalize(head.scored, allowed, sink);
  std::ranges::copy(head.weight(at_, leaves), head.weighted.begin());
  std::ranges::fill(head.result, 0);
  for (std::size_t j = 0; j < allowed.size(); ++j)
    if (allowed[j] != 0 && head.weighted[j] != 0)
      add_scaled(head.result, head.weighted[j], value_.row(first_key + j));
}

// From the gradient of the head's result to those of its scores and what they are made of.
void BackwardRun::pull_row(Head& head, Row allowed, std::size_t query_row, std::size_t first_key) {
  const std::size_t keys = allowed.size();
  std::vector<double> weighted_gradient(keys);
  for (std::size_t j = 0; j < keys; ++j) {
    if (allowed[j] == 0) continue;
    weighted_gradient[j] = dot(head.result_gradient, value_.row(first_key + j));
    if (head.weighted[j] != 0)
      add_scaled(value_.gradient(first_key + j), head.weighted[j], head.result_gradient);
  }
  std::ranges::fill(head.weight_gradient, 0);
  head.weight.pull(weighted_gradient, [&](const DualRow::Source& source, std::size_t j, double gradient) {
    if (source.node == head.normalize)
      head.weight_gradient[j] += gradient;
    else
      receive(head.weight, source, j, gradient);
  });
  const double lse_gradient = head.has_lse ? upstream("lse" + head.suffix, query_row) : 0;
  const double max_gradient = head.has_max_logit ? upstream("max_logit" + head.suffix, query_row) : 0;
  const double sink_gradient = head.row.pull(head.scored, allowed, head.weight_gradient, lse_gradient,
                                             max_gradient, head.score_gradient);
  if (head.sink)
    head.sink->pull({&sink_gradient, 1}, [&](const DualRow::Source& source, std::size_t x, double gradient) {
      receive(*head.sink, source, x, gradient);
    });
  std::ranges::fill(head.dot_gradient, 0);
  head.score.pull(head.score_gradient, [&](const DualRow::Source& source, std::size_t j, double gradient) {
    if (source.node == head.scores)
      head.dot_gradient[j] += gradient;
    else
      receive(head.score, source, j, gradient);
  });
  for (std::size_t j = 0; j < keys; ++j) {
    if (head.dot_gradient[j] == 0) continue;
    add_scaled(head.query.gradient(query_row), head.dot_gradient[j], head.key.row(first_key + j));
    add_scaled(head.key.gradient(first_key + j), head.dot_gradient[j], head.query.row(query_row));
  }
}

void BackwardRun::visit_row(std::size_t query_row) {
  const auto first_key = std::size_t((at_[Axis::b] * graph_.info().kv_heads + at_[Axis::g]) * sizes_.skv);
  const auto dim = std::size_t(graph_.info().v_head_dim);
  const std::vector<double> allowed = [&] {
    const Row row = (*mask_)(at_);
    return std::vector<double>(row.begin(), row.end());
  }();
  for (Head& head : heads_) attend(head, allowed, query_row, first_key);
  (*output_)(at_, [&](NodeId id) { return leaf(id); });
  std::vector<double> o_gradient(dim);
  for (std::size_t d = 0; d < dim; ++d) o_gradient[d] = upstream("o", query_row * dim + d);
  for (Head& head : heads_) std::ranges::fill(head.result_gradient, 0);
  output_->pull(o_gradient, [&](const DualRow::Source& source, std::size_t d, double gradient) {
    for (Head& head : heads_)
      if (source.node == head.attend) head.result_gradient[d] += gradient;
    if (source.tensor.valid()) receive(*output_, source, d, gradient);
  });
  for (Head& head : heads_) {
    pull_row(head, allowed, query_row, first_key);
    std::vector<double>& o = result_.saved["o" + head.suffix];
    o.insert(o.end(), head.result.begin(), head.result.end());
    result_.saved["lse" + head.suffix].push_back(head.row.lse);
    result_.saved["row_sum" + head.suffix].push_back(head.row.row_sum);
    result_.saved["max_key" + head.suffix].push_back(head.row.max_key);
  }
}

ReferenceGradients BackwardRun::run() {
  const int group = graph_.info().heads / graph_.info().kv_heads;
  std::size_t query_row = 0;
  for (at_[Axis::b] = 0; at_[Axis::b] < sizes_.batch; ++at_[Axis::b])
    for (at_[Axis::h] = 0; at_[Axis::h] < graph_.info().heads; ++at_[Axis::h])
      for (at_[Axis::i] = 0; at_[Axis::i] < sizes_.sq; ++at_[Axis::i]) {
        at_[Axis::g] = at_[Axis::h] / group;
        visit_row(query_row++);
      }
  for (Head& head : heads_) {
    pull_transform(head.query);
    pull_transform(head.key);
  }
  pull_transform(value_);
  return std::move(result_);
}

}  // namespace

Result<ReferenceGradients> reference_backward(const Graph& graph, const HostTensors& inputs,
                                              const NamedValues& upstream) {
  ATTNFUSE_CHECK(graph.info().storage.is_plain(), "the reference knows no storage forms");
  ATTNFUSE_CHECK(graph.info().score_heads == 1, "differentiate() refuses programs with two score heads");
  const auto sizes = check_inputs(graph, inputs);
  if (!sizes) return sizes.errors();
  return BackwardRun(graph, inputs, *sizes, upstream).run();
}

}  // namespace attnfuse
