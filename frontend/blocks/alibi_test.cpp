#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

// The paper's code: a geometric sequence for powers of two; otherwise the sequence of the power below, then
// every second element of the sequence of the power above.
std::vector<double> slopes_of(int heads) {
  const auto sequence = [](int n) {
    std::vector<double> result;
    const double start = std::pow(2.0, -std::pow(2.0, -(std::log2(n) - 3)));
    for (int k = 0; k < n; ++k) result.push_back(start * std::pow(start, k));
    return result;
  };
  const int below = int(std::pow(2.0, std::floor(std::log2(heads))));
  std::vector<double> result = sequence(below);
  const std::vector<double> more = sequence(2 * below);
  for (int k = 0; int(result.size()) < heads; k += 2) result.push_back(more[std::size_t(k)]);
  return result;
}

TEST_CASE("alibi has the paper's slopes for any number of heads") {
  for (int heads : {1, 2, 4, 8, 12, 20, 32, 40, 71}) {
    CAPTURE(heads);
    StageValues values("score alibi", heads);
    values.score = 1.5;
    const auto slopes = slopes_of(heads);
    for (int h = 0; h < heads; ++h) {
      CAPTURE(h);
      CHECK(values.scored({.h = h, .i = 9, .j = 4, .sq = 10, .skv = 10}) ==
            doctest::Approx(1.5 - slopes[std::size_t(h)] * 5).epsilon(1e-12));
    }
  }
}

TEST_CASE("alibi counts distances from the query's position among the keys") {
  StageValues values("score alibi");
  CHECK(values.scored({.h = 7, .i = 0, .j = 99, .sq = 1, .skv = 100}) == 0);
  CHECK(values.scored({.h = 7, .i = 0, .j = 35, .sq = 1, .skv = 100}) == -64.0 / 256);
  CHECK(values.scored({.h = 7, .i = 0, .j = 64, .sq = 100, .skv = 100}) == 64.0 / 256);
}

TEST_CASE("alibi takes slopes from a tensor or an expression, and absolute distances") {
  StageValues given("param m : f32[heads]; score alibi(m)");
  given.tensors["m"] = {0, 0, 0.75, 0, 0, 0, 0, 0};
  CHECK(given.scored({.h = 2, .i = 1, .j = 5, .sq = 8, .skv = 8}) == 3);
  StageValues absolute("score alibi(slopes = 1 / (h + 1), distance = absolute)");
  CHECK(absolute.scored({.h = 1, .i = 1, .j = 5, .sq = 8, .skv = 8}) == -2);
  CHECK(absolute.scored({.h = 1, .i = 5, .j = 1, .sq = 8, .skv = 8}) == -2);
}

}  // namespace
}  // namespace attnfuse
