#include "conformance/oracle.h"

#include <algorithm>
#include <cmath>

namespace attnfuse::conformance {
namespace {

double largest_finite(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

Result<Expectation> expect(const Graph& graph, const Inputs& inputs) {
  auto exact = reference(graph, inputs.tensors, Rounding::none);
  if (!exact) return exact.errors();
  auto naive = reference(graph, inputs.tensors, Rounding::naive);
  if (!naive) return naive.errors();
  return calibrated(graph, std::move(exact).value(), std::move(naive).value(), inputs.value_scale);
}

Expectation calibrated(const Graph& graph, ReferenceOutputs exact, ReferenceOutputs naive,
                       double value_scale) {
  Expectation expectation{std::move(exact), std::move(naive), {}, {}, {}, {}};
  expectation.o_model = error_model(graph.info().dtype, value_scale);
  expectation.o_model.infinity_may_be_nan = true;
  const auto of_rows = [](const std::vector<double>& values) {
    return error_model(DType::f32, std::max(1.0, largest_finite(values)));
  };
  expectation.lse_model = of_rows(expectation.exact.lse);
  expectation.max_logit_model = of_rows(expectation.exact.max_logit);
  expectation.lse2_model = of_rows(expectation.exact.lse2);
  return expectation;
}

Judgement judge(const Graph& graph, const Expectation& expectation, const OutputValues& outputs) {
  const ProgramInfo& info = graph.info();
  const Sizes& sizes = expectation.exact.sizes;
  std::vector<std::int64_t> rows{sizes.batch, info.heads, sizes.sq};
  if (info.storage.ragged) rows = {info.heads, sizes.total_q};
  std::vector<std::int64_t> elements = rows;
  elements.push_back(info.v_head_dim);
  const Comparison lse =
      compare("lse", rows, outputs.lse, expectation.exact.lse, expectation.naive.lse, expectation.lse_model);
  const Comparison o =
      compare("o", elements, outputs.o, expectation.exact.o, expectation.naive.o, expectation.o_model);
  Judgement judgement{
      o.equal && lse.equal, std::max(o.worst_ratio, lse.worst_ratio), o.worst_error, lse.worst_error, {}};
  std::vector<Comparison> parts{o, lse};
  const auto compare_rows = [&](const char* name, const std::vector<double>& actual,
                                const std::vector<double>& exact, const std::vector<double>& naive,
                                const ErrorModel& model) {
    if (exact.empty()) return;
    parts.push_back(compare(name, rows, actual, exact, naive, model));
    judgement.equal = judgement.equal && parts.back().equal;
    judgement.worst_ratio = std::max(judgement.worst_ratio, parts.back().worst_ratio);
  };
  compare_rows("max_logit", outputs.max_logit, expectation.exact.max_logit, expectation.naive.max_logit,
               expectation.max_logit_model);
  compare_rows("lse2", outputs.lse2, expectation.exact.lse2, expectation.naive.lse2, expectation.lse2_model);
  for (const Comparison& part : parts)
    if (!part.equal)
      judgement.message += (judgement.message.empty() ? "" : "; ") + part.message + " (" +
                           std::to_string(part.mismatches) + " elements differ)";
  return judgement;
}

}  // namespace attnfuse::conformance
