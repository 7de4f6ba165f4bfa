#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

using Int = std::int64_t;

// As T5's code says it, distances one at a time. Logarithms that are whole up to rounding count as whole.
int t5_bucket(int relative, bool bidirectional, int buckets, int max_distance) {
  int result = 0, n = -relative;
  if (bidirectional) {
    buckets /= 2;
    if (relative > 0) result += buckets;
    n = std::abs(relative);
  } else {
    n = std::max(n, 0);
  }
  const int max_exact = buckets / 2;
  if (n < max_exact) return result + n;
  const double steps =
      std::log(double(n) / max_exact) / std::log(double(max_distance) / max_exact) * (buckets - max_exact);
  return result + std::min(max_exact + int(std::floor(steps + 1e-6)), buckets - 1);
}

TEST_CASE("relative_bias has T5's buckets") {
  for (bool bidirectional : {true, false})
    for (int buckets : {32, 16, 6})
      for (int max_distance : {128, 20, 1000}) {
        CAPTURE(bidirectional);
        CAPTURE(buckets);
        CAPTURE(max_distance);
        const std::string kind = bidirectional ? "bidirectional" : "causal";
        StageValues values("param t : f32[heads, " + std::to_string(buckets) +
                           "]; score relative_bias(t, kind = " + kind + "(" + std::to_string(max_distance) +
                           "))");
        for (int k = 0; k < 8 * buckets; ++k) values.tensors["t"].push_back(k);
        values.score = 0.5;
        for (Int distance = -300; distance <= 300; ++distance) {
          CAPTURE(distance);
          const Int i = 500, j = i + 10 + distance;
          CHECK(values.scored({.h = 3, .i = i, .j = j, .sq = 700, .skv = 710}) ==
                0.5 + 3 * buckets + t5_bucket(int(distance), bidirectional, buckets, max_distance));
        }
      }
}

TEST_CASE("relative_bias reads one number a distance, the ends beyond") {
  StageValues values("param t : f32[7]; score relative_bias(t, align = top_left)");
  values.tensors["t"] = {-30, -20, -10, 0, 10, 20, 30};
  values.score = 1;
  for (Int i = 0; i < 9; ++i)
    for (Int j = 0; j < 9; ++j)
      CHECK(values.scored({.i = i, .j = j, .sq = 9, .skv = 20}) ==
            1 + 10 * double(std::clamp<Int>(j - i, -3, 3)));
}

TEST_CASE("dense_bias is the same along missing dimensions and along ones") {
  struct Row {
    const char* shape;
    double (*wanted)(const At& at);
  };
  const Row rows[] = {
      {"[batch, heads, sq, skv]",
       [](const At& at) { return double(((at.b * 8 + at.h) * 3 + at.i) * 5 + at.j); }},
      {"[1, heads, sq, 1]", [](const At& at) { return double(at.h * 3 + at.i); }},
      {"[8, 1, skv]", [](const At& at) { return double(at.h * 5 + at.j); }},
      {"[sq, skv]", [](const At& at) { return double(at.i * 5 + at.j); }},
      {"[batch, 1, 1, skv]", [](const At& at) { return double(at.b * 5 + at.j); }},
      {"[skv]", [](const At& at) { return double(at.j); }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.shape);
    StageValues values(std::string("param t : f16") + row.shape + "; score dense_bias(t)");
    for (int k = 0; k < 2 * 8 * 3 * 5; ++k) values.tensors["t"].push_back(k);
    for (Int b : {0, 1})
      for (Int h : {0, 5})
        for (Int i = 0; i < 3; ++i)
          for (Int j = 0; j < 5; ++j) {
            const At at{.b = b, .h = h, .i = i, .j = j, .batch = 2, .sq = 3, .skv = 5};
            CHECK(values.scored(at) == row.wanted(at));
          }
  }
}

TEST_CASE("sums gather from tensors of every type, with several indices") {
  StageValues values(
      "param w : f32[3, heads] param n : i32[skv] param kept : bool[3, 2]; "
      "score x + sum(m in 0..3) w[m, h] * n[j] * m + sum(m in 0..3) kept[m, 1]");
  for (int k = 0; k < 24; ++k) values.tensors["w"].push_back(k);
  values.tensors["n"] = {5, -2};
  values.tensors["kept"] = {0, 1, 1, 0, 0, 1};
  values.score = 100;
  CHECK(values.scored({.h = 6, .j = 1, .skv = 2}) == 100 + (14 * 1 + 22 * 2) * -2 + 2);
}

TEST_CASE("decay multiplies by one factor for every step") {
  const auto power = [](double gamma, Int steps) {
    double result = 1;
    for (Int k = 0; k < steps; ++k) result *= gamma;
    return result;
  };
  StageValues retention("score decay"), given("score decay(gamma = 1 / (h + 2), align = top_left)");
  retention.score = given.score = 3;
  for (Int h : {0, 7})
    for (Int i = 0; i < 4; ++i)
      for (Int j = 0; j < 9; ++j) {
        const At at{.h = h, .i = i, .j = j, .sq = 4, .skv = 9};
        CHECK(retention.scored(at) ==
              doctest::Approx(3 * power(1 - 1.0 / (32 << h), std::abs(i + 5 - j))).epsilon(1e-9));
        CHECK(given.scored(at) ==
              doctest::Approx(3 * power(1.0 / double(h + 2), std::abs(i - j))).epsilon(1e-12));
      }
}

}  // namespace
}  // namespace attnfuse
