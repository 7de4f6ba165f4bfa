#include <cmath>
#include <complex>
#include <numbers>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

struct Rotation {
  double theta = 10000;
  bool interleaved = false;
  int dims = 16;
  double (*scaled)(double frequency) = [](double frequency) { return frequency; };
};

// The row turned as complex numbers, pair by pair.
std::vector<double> turned(const std::vector<double>& row, double position, const Rotation& rotation) {
  std::vector<double> result = row;
  for (int p = 0; p < rotation.dims / 2; ++p) {
    const auto first = std::size_t(rotation.interleaved ? 2 * p : p);
    const auto second = std::size_t(rotation.interleaved ? 2 * p + 1 : p + rotation.dims / 2);
    const double frequency = rotation.scaled(std::pow(rotation.theta, -2.0 * p / rotation.dims));
    const auto z = std::complex(row[first], row[second]) * std::polar(1.0, position * frequency);
    result[first] = z.real();
    result[second] = z.imag();
  }
  return result;
}

void fill(StageValues& values) {
  for (std::size_t d = 0; d < values.row.size(); ++d) values.row[d] = std::sin(1.7 * double(d) + 0.3) * 3;
}

void check_keys(const std::string& call, const Rotation& rotation, double shift = 0) {
  CAPTURE(call);
  StageValues values("key " + call);
  fill(values);
  for (std::int64_t j : {0, 1, 5, 1000, 131071}) {
    CAPTURE(j);
    const auto wanted = turned(values.row, double(j) + shift, rotation);
    for (std::int64_t d = 0; d < 16; ++d) {
      CAPTURE(d);
      CHECK(values.key({.j = j, .d = d, .skv = 200000}) ==
            doctest::Approx(wanted[std::size_t(d)]).epsilon(1e-9).scale(1));
    }
  }
}

// As Llama-3.1's code says it: by wavelength, in three cases.
double llama3_frequency(double frequency) {
  constexpr double kFactor = 8, kLow = 1, kHigh = 4, kContext = 8192;
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < kContext / kHigh) return frequency;
  if (wavelength > kContext / kLow) return frequency / kFactor;
  const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
  return (1 - smooth) * frequency / kFactor + smooth * frequency;
}

TEST_CASE("rope turns pairs like complex numbers") {
  check_keys("rope", {});
  check_keys("rope(theta = 500000)", {.theta = 500000});
  check_keys("rope(pairs = interleaved)", {.interleaved = true});
  check_keys("rope(1e4, half, 8)", {.dims = 8});
  check_keys("rope(dims = 8, pairs = interleaved)", {.interleaved = true, .dims = 8});
  check_keys("rope(dims = 6)", {.dims = 6});
  check_keys("rope(offset = 12)", {}, 12);
  check_keys("rope(offset = -0.5)", {}, -0.5);
}

TEST_CASE("rope with llama3 scaling slows down long waves as the model does") {
  check_keys("rope(theta = 500000, scaling = llama3)", {.theta = 500000, .scaled = llama3_frequency});
  check_keys("rope(theta = 500000, scaling = llama3(8, 1, 4, 8192))",
             {.theta = 500000, .scaled = llama3_frequency});
  check_keys("rope(theta = 500000, scaling = none)", {.theta = 500000});
  check_keys(
      "rope(scaling = llama3(factor = 2, low_freq_factor = 3, high_freq_factor = 3, original_context = 500))",
      {.scaled = [](double frequency) {
        return frequency * 500 / (2 * std::numbers::pi) >= 3 ? frequency : frequency / 2;
      }});
}

TEST_CASE("rope places the last query at the last key") {
  StageValues values("query rope; key rope");
  fill(values);
  const auto wanted = turned(values.row, 7 + 100 - 10, {});
  for (std::int64_t d = 0; d < 16; ++d) {
    const double query = values.query({.i = 7, .d = d, .sq = 10, .skv = 100});
    CHECK(query == doctest::Approx(wanted[std::size_t(d)]).epsilon(1e-12).scale(1));
    CHECK(query == values.key({.j = 97, .d = d, .sq = 10, .skv = 100}));
  }
}

TEST_CASE("rope takes positions from expressions and tensors") {
  StageValues values(
      "param position : i32[skv]; query rope(position = i * 2 + 1); key rope(position = position[j])");
  fill(values);
  values.tensors["position"] = {5, 0, 9, 9};
  const auto doubled = turned(values.row, 3 * 2 + 1, {}), looked_up = turned(values.row, 9, {});
  for (std::int64_t d = 0; d < 16; ++d) {
    CHECK(values.query({.i = 3, .d = d, .sq = 8, .skv = 4}) ==
          doctest::Approx(doubled[std::size_t(d)]).epsilon(1e-12).scale(1));
    CHECK(values.key({.j = 2, .d = d, .sq = 8, .skv = 4}) ==
          doctest::Approx(looked_up[std::size_t(d)]).epsilon(1e-12).scale(1));
  }
}

TEST_CASE("rope leaves elements past dims alone whatever they are") {
  StageValues values("key rope(dims = 8)");
  values.row[8] = INFINITY;
  values.row[15] = NAN;
  CHECK(values.key({.j = 3, .d = 8}) == INFINITY);
  CHECK(std::isnan(values.key({.j = 3, .d = 15})));
  CHECK(values.key({.j = 3, .d = 0}) == 0);
}

TEST_CASE("two ropes add their angles") {
  StageValues values("key rope(offset = 3); key x * 2; key rope(offset = 4)");
  fill(values);
  const auto wanted = turned(values.row, 2 * 10 + 7, {});
  for (std::int64_t d = 0; d < 16; ++d)
    CHECK(values.key({.j = 10, .d = d}) ==
          doctest::Approx(2 * wanted[std::size_t(d)]).epsilon(1e-12).scale(1));
}

}  // namespace
}  // namespace attnfuse
