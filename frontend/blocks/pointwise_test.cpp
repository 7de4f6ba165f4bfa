#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

NormalizeKind kind_of(const StageValues& values) {
  return as<Normalize>(values.graph().node(find<Normalize>(values.graph())))->kind;
}

template <class Wanted>
void check_weights(const std::string& line, NormalizeKind kind, Wanted wanted) {
  CAPTURE(line);
  StageValues values("normalize " + line);
  CHECK(kind_of(values) == kind);
  for (double x : {-1000.0, -3.0, -0.25, 0.0, 0.5, 4.0, 90.0}) {
    CAPTURE(x);
    values.score = x;
    CHECK(values.scored({.h = 3, .skv = 50}) == doctest::Approx(wanted(x)).epsilon(1e-12));
  }
}

TEST_CASE("normalizers without a sum weigh every score for itself") {
  constexpr auto kNone = NormalizeKind::none;
  check_weights("sigmoid", kNone, [](double x) { return 1 / (1 + 50 * std::exp(-x)); });
  check_weights("sigmoid(bias = h - 5)", kNone, [](double x) { return 0.5 + 0.5 * std::tanh((x - 2) / 2); });
  check_weights("relu", kNone, [](double x) { return x > 0 ? x / 50 : 0; });
  check_weights("relu(scale = 0.5, squared = yes)", kNone, [](double x) { return x > 0 ? x * x / 2 : 0; });
  check_weights("silu(2)", kNone, [](double x) { return x < -700 ? 0 : 2 * x / (1 + std::exp(-x)); });
  check_weights("none", kNone, [](double x) { return x; });
  check_weights("retention", NormalizeKind::retention, [](double x) { return x; });
}

TEST_CASE("softmax_plus_one is a softmax with a sink of zero") {
  StageValues values("normalize softmax_plus_one");
  CHECK(kind_of(values) == NormalizeKind::softmax_sink);
  CHECK(values.sink({.h = 3}) == 0);
}

}  // namespace
}  // namespace attnfuse
