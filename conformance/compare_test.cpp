#include "conformance/compare.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace attnfuse::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Four numbers whose naive f16 run is off by 1e-4 at worst.
const std::vector<double> kExpected{0.5, -1.25, 0, 2};
const std::vector<double> kNaive{0.5001, -1.25, 0, 2};

Comparison compare_four(const std::vector<double>& actual, const std::vector<double>& expected = kExpected) {
  return compare("o", {2, 2}, actual, expected, kNaive, error_model(DType::f16, 2));
}

}  // namespace

TEST_CASE("equal values compare equal") {
  const Comparison same = compare_four(kExpected);
  CHECK(same.equal);
  CHECK(same.worst_ratio == 0);
  CHECK(same.naive_error == doctest::Approx(1e-4));
}

TEST_CASE("errors up to three times the naive run's are within the budget, larger ones are not") {
  CHECK(compare_four({0.5003, -1.25, 0, 2}).equal);
  CHECK(compare_four({0.5, -1.25, 2.9e-4, 2}).equal);
  const Comparison wrong = compare_four({0.5, -1.25, 4e-4, 2});
  CHECK_FALSE(wrong.equal);
  CHECK(wrong.mismatches == 1);
  CHECK(wrong.worst_ratio > 1);
  CHECK(wrong.message.find("o[1,0] = 0.0004, expected 0: error 0.0004") == 0);
}

TEST_CASE("an exact naive run leaves one rounding step") {
  const ErrorModel model = error_model(DType::bf16, 1);
  const std::vector<double> one{1.0};
  CHECK(compare("o", {1}, std::vector<double>{1.0 + 0x1p-7}, one, one, model).equal);
  CHECK_FALSE(compare("o", {1}, std::vector<double>{1.0 + 0x1p-6}, one, one, model).equal);
}

TEST_CASE("NaN in place of a number is caught, and a number in place of NaN") {
  CHECK_FALSE(compare_four({kNan, -1.25, 0, 2}).equal);
  CHECK_FALSE(compare_four({0.5, -1.25, 0, 2}, {kNan, -1.25, 0, 2}).equal);
  CHECK(compare_four({kNan, -1.25, 0, 2}, {kNan, -1.25, 0, 2}).equal);
}

TEST_CASE("NaN in place of infinity passes only where the model says so") {
  ErrorModel model = error_model(DType::f16, 2);
  const std::vector<double> infinite{kInfinity}, nan{kNan}, one{1};
  CHECK_FALSE(compare("o", {1}, nan, infinite, infinite, model).equal);
  model.infinity_may_be_nan = true;
  CHECK(compare("o", {1}, nan, infinite, infinite, model).equal);
  CHECK_FALSE(compare("o", {1}, std::vector<double>{-kInfinity}, infinite, infinite, model).equal);
  CHECK_FALSE(compare("o", {1}, one, infinite, infinite, model).equal);
  CHECK_FALSE(compare("o", {1}, infinite, nan, nan, model).equal);
  CHECK_FALSE(compare("o", {1}, nan, one, one, model).equal);
}

TEST_CASE("infinities must have the same sign") {
  const std::vector<double> expected{-kInfinity, -1.25, 0, 2};
  CHECK(compare_four({-kInfinity, -1.25, 0, 2}, expected).equal);
  CHECK_FALSE(compare_four({kInfinity, -1.25, 0, 2}, expected).equal);
  CHECK_FALSE(compare_four({-1e38, -1.25, 0, 2}, expected).equal);
  CHECK_FALSE(compare_four({kNan, -1.25, 0, 2}, expected).equal);
  CHECK_FALSE(compare_four({-kInfinity, -1.25, 0, 2}).equal);
}

TEST_CASE("a NaN that both have does not hide a wrong number elsewhere") {
  CHECK_FALSE(compare_four({kNan, -1.25, 0, 3}, {kNan, -1.25, 0, 2}).equal);
}

TEST_CASE("a logarithm to the base two is caught") {
  const std::vector<double> natural{3.1}, base_two{3.1 / std::numbers::ln2},
      off_by_ln2{3.1 + std::numbers::ln2};
  const ErrorModel model = error_model(DType::f32, 3.1);
  CHECK_FALSE(compare("lse", {1}, base_two, natural, natural, model).equal);
  CHECK_FALSE(compare("lse", {1}, off_by_ln2, natural, natural, model).equal);
}

TEST_CASE("an element is named by its index") {
  CHECK(element_name("o", {2, 3, 4}, 23) == "o[1,2,3]");
  CHECK(element_name("lse", {}, 0) == "lse[]");
}

}  // namespace attnfuse::conformance
