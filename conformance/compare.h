// Comparison of a kernel's output with the oracle's. NaN and infinity must match, element by element; only
// then are finite values compared, against a budget that an error model gives and nobody widens by hand:
//
//   budget(element) = 3 x (worst error of a naive run that rounds where the dtype makes anyone round)
//                   + one rounding step of the output at that value + a few f32 steps of the data's scale
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/types.h"

namespace attnfuse::conformance {

// How far an implementation may be from the oracle beyond the naive run's own error.
struct ErrorModel {
  double factor = 3;    // of the naive run's worst error
  double relative = 0;  // of the expected value: one rounding step of the output's dtype
  double absolute = 0;  // f32 rounding at the scale of the data
  // NaN will do where the oracle has infinity: a weight that rounds to zero makes NaN of an infinite value,
  // and some matrix units (NVIDIA's through Vulkan) make NaN of infinity times a weight below 0.1.
  bool infinity_may_be_nan = false;
};

// For values stored as `dtype` that are averages of numbers up to `scale`.
ErrorModel error_model(DType dtype, double scale);

struct Comparison {
  bool equal = true;
  double worst_ratio = 0;  // error / budget, over finite elements
  double worst_error = 0;
  double naive_error = 0;
  std::int64_t mismatches = 0;
  std::string message;  // empty, or the first mismatch: index, value, expected, budget
};

// All spans have the elements of `shape`, row major.
Comparison compare(const std::string& name, const std::vector<std::int64_t>& shape,
                   std::span<const double> actual, std::span<const double> expected,
                   std::span<const double> naive, const ErrorModel& model);

// Error / budget of every element; infinite where NaN or infinity do not match.
std::vector<double> error_ratios(std::span<const double> actual, std::span<const double> expected,
                                 std::span<const double> naive, const ErrorModel& model);

// "o[0,2,5,17]"
std::string element_name(const std::string& name, const std::vector<std::int64_t>& shape, std::int64_t index);

}  // namespace attnfuse::conformance
