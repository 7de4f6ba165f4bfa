#include "conformance/compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ir/diagnostic.h"

namespace attnfuse::conformance {
namespace {

// Distance between neighbouring numbers, relative to the value.
double rounding_step(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f32:
      return 0x1p-23;
    case DType::i32:
    case DType::boolean:
      return 0;
  }
  return 0;
}

bool same_class(double actual, double expected, const ErrorModel& model) {
  if (model.infinity_may_be_nan && std::isinf(expected) && std::isnan(actual)) return true;
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  return true;
}

double worst_naive_error(std::span<const double> expected, std::span<const double> naive) {
  double worst = 0;
  for (std::size_t n = 0; n < expected.size(); ++n)
    if (std::isfinite(expected[n]) && std::isfinite(naive[n]))
      worst = std::max(worst, std::abs(naive[n] - expected[n]));
  return worst;
}

}  // namespace

ErrorModel error_model(DType dtype, double scale) {
  constexpr double kFloat = 0x1p-23;
  // Below its normal range a dtype's step stops shrinking.
  const double smallest_step = dtype == DType::f16 ? 0x1p-24 : 0;
  return {.relative = rounding_step(dtype), .absolute = 4 * kFloat * scale + smallest_step};
}

Comparison compare(const std::string& name, const std::vector<std::int64_t>& shape,
                   std::span<const double> actual, std::span<const double> expected,
                   std::span<const double> naive, const ErrorModel& model) {
  ATTNFUSE_CHECK(actual.size() == expected.size() && naive.size() == expected.size(),
                 "sizes of " + name + " differ");
  Comparison result;
  result.naive_error = worst_naive_error(expected, naive);
  const auto mismatch = [&](std::size_t n, const std::string& what) {
    result.equal = false;
    if (result.mismatches++ == 0) result.message = element_name(name, shape, std::int64_t(n)) + what;
  };
  for (std::size_t n = 0; n < expected.size(); ++n)
    if (!same_class(actual[n], expected[n], model))
      mismatch(n, fmt::format(" = {}, expected {}", actual[n], expected[n]));
  if (!result.equal) return result;

  for (std::size_t n = 0; n < expected.size(); ++n) {
    if (!std::isfinite(expected[n])) continue;
    const double budget =
        model.factor * result.naive_error + model.relative * std::abs(expected[n]) + model.absolute;
    const double error = std::abs(actual[n] - expected[n]);
    result.worst_error = std::max(result.worst_error, error);
    if (error > 0) result.worst_ratio = std::max(result.worst_ratio, budget > 0 ? error / budget : HUGE_VAL);
    if (error > budget)
      mismatch(n, fmt::format(" = {:.9g}, expected {:.9g}: error {:.3g}, budget {:.3g} (naive run: {:.3g})",
                              actual[n], expected[n], error, budget, result.naive_error));
  }
  return result;
}

std::vector<double> error_ratios(std::span<const double> actual, std::span<const double> expected,
                                 std::span<const double> naive, const ErrorModel& model) {
  const double naive_error = worst_naive_error(expected, naive);
  std::vector<double> ratios;
  for (std::size_t n = 0; n < expected.size(); ++n) {
    const double budget =
        model.factor * naive_error + model.relative * std::abs(expected[n]) + model.absolute;
    const double error = std::abs(actual[n] - expected[n]);
    const bool both_finite = std::isfinite(actual[n]) && std::isfinite(expected[n]);
    if (!both_finite)
      ratios.push_back(same_class(actual[n], expected[n], model) ? 0 : HUGE_VAL);
    else
      ratios.push_back(error == 0 ? 0 : budget > 0 ? error / budget : HUGE_VAL);
  }
  return ratios;
}

std::string element_name(const std::string& name, const std::vector<std::int64_t>& shape,
                         std::int64_t index) {
  std::string text;
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    text = std::to_string(index % shape[dim]) + (text.empty() ? "" : ",") + text;
    index /= shape[dim];
  }
  return name + "[" + text + "]";
}

}  // namespace attnfuse::conformance
