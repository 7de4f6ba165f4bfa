#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

TEST_CASE("scale multiplies the score by a constant of numbers and sizes") {
  StageValues number("score scale(0.3)"), size("score scale(c = 1 / sqrt(head_dim))");
  for (double x : {-7.0, 0.0, 2.5}) {
    number.score = size.score = x;
    CHECK(number.scored({}) == doctest::Approx(0.3 * x));
    CHECK(size.scored({}) == doctest::Approx(x / 4));
  }
}

TEST_CASE("softcap is c tanh(x / c)") {
  StageValues values("score softcap(50)");
  for (double x : {-1e6, -80.0, -1.0, 0.0, 3.0, 49.0, 1e30}) {
    values.score = x;
    CHECK(values.scored({}) == doctest::Approx(50 * std::tanh(x / 50)).epsilon(1e-14));
  }
}

TEST_CASE("score lines apply in order") {
  StageValues values("score scale(2); score softcap(5); score x + h; score scale(-1)");
  values.score = 3;
  CHECK(values.scored({.h = 2}) == doctest::Approx(-(5 * std::tanh(6.0 / 5) + 2)));
}

}  // namespace
}  // namespace attnfuse
