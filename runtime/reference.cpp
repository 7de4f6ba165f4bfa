#include "runtime/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ir/score_heads.h"
#include "runtime/row_expression.h"

namespace attnfuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Real is double for the oracle, float for the naive run.
template <class Real>
class ReferenceRun {
 public:
  ReferenceRun(const Graph& graph, const HostTensors& inputs, const Sizes& sizes)
      : graph_(graph), inputs_(inputs), sizes_(sizes), size_values_(size_values(graph.info(), sizes)) {
    for (const TensorInfo& tensor : graph.tensors()) {
      const auto found = inputs.find(tensor.name);
      captured_.push_back(found == inputs.end() ? nullptr : &found->second);
    }
  }

  ReferenceOutputs run();

 private:
  static constexpr bool kNaive = sizeof(Real) == sizeof(float);

  RowExpression expression(NodeId root, Axis along, std::int64_t length) {
    return {graph_, root, along, length, size_values_, captured_, kNaive};
  }
  double to_storage(double value) const { return kNaive ? round_to(graph_.info().dtype, value) : value; }
  std::vector<double> transformed(NodeId root, TensorId tensor);
  void softmax(std::span<const double> scores, std::span<const double> allowed, const double* sink);
  void weigh(std::span<const double> scores, std::span<const double> allowed, NormalizeKind kind);
  void attend(const double* values, std::span<const double> allowed);

  // What the loops over rows read of one score head, and the row of results that it leaves.
  struct Head {
    std::vector<double> q, k;
    RowExpression score, weight, lse_value;
    std::optional<RowExpression> sink;
    std::vector<double> dots, result;
    std::vector<double>* lse;  // the output
  };
  Head head_of(const ScoreHead& head, NodeId lse, std::vector<double>& to);
  // weights_, sums_, lse_ and maximum_ of the row at `at`.
  void attend_row(Head& head, const Position& at, std::size_t query_row, std::size_t first_key,
                  std::span<const double> allowed, const double* values);

  const Graph& graph_;
  const HostTensors& inputs_;
  Sizes sizes_;
  SizeValues size_values_;
  CapturedTensors captured_;
  std::vector<double>
      weights_;             // of the current row, where keys are allowed: exp(score - maximum), or scores
  std::vector<Real> sums_;  // of the current row, by d
  NormalizeKind kind_ = NormalizeKind::softmax;
  Real denominator_ = 0;
  double lse_ = 0;
  double maximum_ = 0;  // of the current row's scores and sink
};

// A query, key or value tensor [b, heads, length, dim] after its transform.
template <class Real>
std::vector<double> ReferenceRun<Real>::transformed(NodeId root, TensorId tensor) {
  const bool is_query = graph_.tensor(tensor).role == TensorRole::query;
  const HostTensor* input = captured_.at(tensor.value);
  ATTNFUSE_CHECK(input, "a program without query, key or value");
  const std::vector<std::int64_t>& shape = input->layout.shape;
  const auto dim = std::size_t(shape[3]);
  RowExpression transform = expression(root, Axis::d, shape[3]);
  std::vector<double> row(dim), all;
  all.reserve(std::size_t(input->layout.element_count()));
  Position at;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t head = 0; head < shape[1]; ++head)
      for (std::int64_t position = 0; position < shape[2]; ++position) {
        at[Axis::b] = b;
        at[is_query ? Axis::h : Axis::g] = head;
        if (is_query) at[Axis::g] = head / (graph_.info().heads / graph_.info().kv_heads);
        at[is_query ? Axis::i : Axis::j] = position;
        const std::int64_t index[] = {b, head, position, 0};
        const int size = size_in_bytes(input->layout.dtype);
        const std::byte* from = input->bytes.data() + input->layout.offset(index) * size;
        for (std::size_t d = 0; d < dim; ++d)
          row[d] = load_element(input->layout.dtype, from + d * std::size_t(size));
        for (double value : transform(at, row)) all.push_back(to_storage(value));
      }
  return all;
}

template <class Real>
Real dot(const double* a, const double* b, std::size_t count) {
  Real sum = 0;
  for (std::size_t d = 0; d < count; ++d) sum += Real(a[d]) * Real(b[d]);
  return sum;
}

// Weights, denominator and log-sum-exp of one row. A row that no key contributes to has denominator 0.
template <class Real>
void ReferenceRun<Real>::softmax(std::span<const double> scores, std::span<const double> allowed,
                                 const double* sink) {
  double maximum = sink ? *sink : -kInfinity;
  bool any = false;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (allowed[j] == 0) continue;
    any = true;
    if (!std::isnan(maximum) && !(scores[j] <= maximum)) maximum = scores[j];
  }
  denominator_ = 0;
  lse_ = sink ? *sink : -kInfinity;
  maximum_ = maximum;
  if (!any || maximum == -kInfinity) return;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (allowed[j] == 0) continue;
    const Real weight = std::exp(Real(scores[j]) - Real(maximum));
    denominator_ += weight;
    weights_[j] = double(weight);
  }
  if (sink) denominator_ += std::exp(Real(*sink) - Real(maximum));
  lse_ = double(Real(maximum) + std::log(denominator_));
}

// Scores as weights, for what is no softmax.
template <class Real>
void ReferenceRun<Real>::weigh(std::span<const double> scores, std::span<const double> allowed,
                               NormalizeKind kind) {
  Real sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (allowed[j] == 0) continue;
    sum += Real(scores[j]);
    weights_[j] = scores[j];
  }
  denominator_ = kind == NormalizeKind::retention ? std::max(std::abs(sum), Real(1)) : Real(1);
  lse_ = double(std::log(denominator_));
}

// Sums values [j, d] by weight. Masked values are not read. A softmax's weights are positive even where they
// underflow, so a value that is not finite reaches the sum.
template <class Real>
void ReferenceRun<Real>::attend(const double* values, std::span<const double> allowed) {
  const std::size_t dim = sums_.size();
  std::fill(sums_.begin(), sums_.end(), Real(0));
  if (denominator_ == 0) return;
  for (std::size_t j = 0; j < weights_.size(); ++j) {
    if (allowed[j] == 0) continue;
    const double* row = values + j * dim;
    for (std::size_t d = 0; d < dim; ++d)
      if (weights_[j] != 0)
        sums_[d] += Real(weights_[j]) * Real(row[d]);
      else if (!std::isfinite(row[d]))
        sums_[d] += Real(row[d]);
  }
  for (Real& sum : sums_) sum /= denominator_;
}

template <class Real>
typename ReferenceRun<Real>::Head ReferenceRun<Real>::head_of(const ScoreHead& head, NodeId lse,
                                                              std::vector<double>& to) {
  const bool has_sink = as<Normalize>(graph_.node(head.normalize))->kind == NormalizeKind::softmax_sink;
  Head result{{},
              {},
              expression(graph_.operand(head.normalize, 0), Axis::j, sizes_.skv),
              expression(graph_.operand(head.attend, 0), Axis::j, sizes_.skv),
              expression(lse, Axis::d, 1),
              {},
              std::vector<double>(std::size_t(sizes_.skv)),
              std::vector<double>(std::size_t(graph_.info().v_head_dim)),
              &to};
  if (has_sink) result.sink = expression(graph_.operand(head.normalize, 2), Axis::d, 1);
  if (!head.scores.valid()) return result;
  result.q = transformed(graph_.operand(head.scores, 0), head.query);
  result.k = transformed(graph_.operand(head.scores, 1), head.key);
  return result;
}

template <class Real>
void ReferenceRun<Real>::attend_row(Head& head, const Position& at, std::size_t query_row,
                                    std::size_t first_key, std::span<const double> allowed,
                                    const double* values) {
  const auto dim = std::size_t(graph_.info().head_dim);
  const std::size_t keys = allowed.size();
  if (head.score.reads_leaf())
    for (std::size_t j = 0; j < keys; ++j)
      if (allowed[j] != 0)
        head.dots[j] = double(dot<Real>(&head.q[query_row * dim], &head.k[(first_key + j) * dim], dim));
  const double* sink = head.sink ? (*head.sink)(at).data() : nullptr;
  if (kind_ == NormalizeKind::softmax || kind_ == NormalizeKind::softmax_sink)
    softmax(head.score(at, head.dots), allowed, sink);
  else
    weigh(head.score(at, head.dots), allowed, kind_);
  const std::span<const double> weights = head.weight(at, weights_);
  for (std::size_t j = 0; j < keys; ++j)
    if (allowed[j] != 0) weights_[j] = to_storage(weights[j]);
  attend(values, allowed);
  std::copy(sums_.begin(), sums_.end(), head.result.begin());
  head.lse->push_back(head.lse_value(at, {&lse_, 1})[0]);
}

template <class Real>
ReferenceOutputs ReferenceRun<Real>::run() {
  const ProgramInfo& info = graph_.info();
  const std::vector<ScoreHead> score_heads = attnfuse::score_heads(graph_);
  const NodeId o = graph_.output("o"), max_logit = graph_.output("max_logit");
  ATTNFUSE_CHECK(!score_heads.empty() && o.valid() && graph_.output("lse").valid(),
                 "a program without outputs");
  const ScoreHead& first = score_heads[0];
  kind_ = as<Normalize>(graph_.node(first.normalize))->kind;

  ReferenceOutputs outputs{sizes_, {}, {}, {}, {}};
  std::vector<Head> heads;
  for (std::size_t n = 0; n < score_heads.size(); ++n)
    heads.push_back(
        head_of(score_heads[n], graph_.output(n == 0 ? "lse" : "lse2"), n == 0 ? outputs.lse : outputs.lse2));
  TensorId value;
  for (std::uint32_t t = 0; t < graph_.tensors().size(); ++t)
    if (graph_.tensor({t}).role == TensorRole::value) value = {t};
  const std::vector<double> v = transformed(graph_.operand(first.attend, 1), value);
  RowExpression mask = expression(graph_.operand(first.normalize, 1), Axis::j, sizes_.skv);
  RowExpression o_value = expression(o, Axis::d, info.v_head_dim);
  for (std::size_t n = 0; n < heads.size(); ++n) o_value.bind(score_heads[n].attend, heads[n].result);

  const auto v_dim = std::size_t(info.v_head_dim), keys = std::size_t(sizes_.skv);
  weights_.resize(keys);
  sums_.resize(v_dim);
  Position at;
  std::size_t query_row = 0;
  for (at[Axis::b] = 0; at[Axis::b] < sizes_.batch; ++at[Axis::b])
    for (at[Axis::h] = 0; at[Axis::h] < info.heads; ++at[Axis::h]) {
      at[Axis::g] = at[Axis::h] / (info.heads / info.kv_heads);
      const std::size_t first_key = std::size_t(at[Axis::b] * info.kv_heads + at[Axis::g]) * keys;
      for (at[Axis::i] = 0; at[Axis::i] < sizes_.sq; ++at[Axis::i], ++query_row) {
        const std::span<const double> allowed = mask(at);
        for (Head& head : heads) {
          attend_row(head, at, query_row, first_key, allowed, v.data() + first_key * v_dim);
          if (max_logit.valid() && &head == &heads[0]) outputs.max_logit.push_back(maximum_);
        }
        for (double element : o_value(at)) outputs.o.push_back(to_storage(element));
      }
    }
  return outputs;
}

}  // namespace

Result<ReferenceOutputs> reference(const Graph& graph, const HostTensors& inputs, Rounding rounding) {
  ATTNFUSE_CHECK(graph.info().storage.is_plain(), "the reference knows no storage forms");
  const auto sizes = check_inputs(graph, inputs);
  if (!sizes) return sizes.errors();
  return rounding == Rounding::none ? ReferenceRun<double>(graph, inputs, *sizes).run()
                                    : ReferenceRun<float>(graph, inputs, *sizes).run();
}

}  // namespace attnfuse
