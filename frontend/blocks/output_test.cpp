// Blocks after the softmax and after the second product.
#include <array>
#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("gated multiplies the output by a sigmoid, of every element or of every head") {
  StageValues element("param z : f32[heads, v_head_dim]; output gated(z[h, d])");
  element.tensors["z"] = std::vector<double>(8 * 16);
  element.tensors["z"][3 * 16 + 5] = 1.5;
  element.row[5] = 4;
  CHECK(element.output({.h = 3, .d = 5}) == doctest::Approx(4 * sigmoid(1.5)));
  CHECK(element.output({.h = 2, .d = 5}) == doctest::Approx(4 * 0.5));
  StageValues head("param z : f32[batch, heads, sq]; output gated(z[b, h, i])");
  head.tensors["z"] = {0, 0, 0, 0, 0, 0, -2, 0};
  head.row[1] = 3;
  CHECK(head.output({.h = 6, .d = 1}) == doctest::Approx(3 * sigmoid(-2)));
}

TEST_CASE("output lines apply in order, to x so far") {
  StageValues values("output x + 1; output scale(3); output x * i; output clip(20)");
  values.row[2] = 2;
  CHECK(values.output({.i = 2, .d = 2}) == 18);
  CHECK(values.output({.i = 5, .d = 2}) == 20);
}

TEST_CASE("norm of an output is over its own elements, with weights by query head") {
  StageValues values("param w : f32[heads, v_head_dim]; output norm(weight = w, eps = 0); output scale(0.5)");
  values.tensors["w"] = std::vector<double>(8 * 16, 1.0);
  values.tensors["w"][7 * 16 + 2] = 6;
  values.row = {3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK(values.output({.h = 7, .d = 0}) == doctest::Approx(0.5 * 3 / std::sqrt(25.0 / 16)));
  values.row[2] = 1;
  CHECK(values.output({.h = 7, .d = 2}) == doctest::Approx(0.5 * 6 / std::sqrt(26.0 / 16)));
}

TEST_CASE("inverse_rope undoes rope at the query's position") {
  for (const char* arguments : {"theta = 100", "theta = 100, pairs = interleaved, dims = 8",
                                "theta = 100, scaling = yarn(8, 64)", "theta = 100, offset = 3"}) {
    CAPTURE(arguments);
    StageValues there("query rope(" + std::string(arguments) + ")");
    StageValues back("output inverse_rope(" + std::string(arguments) + ")");
    std::vector<double> turned;
    for (std::int64_t d = 0; d < 16; ++d) there.row[std::size_t(d)] = 0.5 + double(d * d % 7);
    for (std::int64_t d = 0; d < 16; ++d) turned.push_back(there.query({.i = 5, .d = d, .sq = 9, .skv = 20}));
    back.row = turned;
    for (std::int64_t d = 0; d < 16; ++d)
      CHECK(back.output({.i = 5, .d = d, .sq = 9, .skv = 20}) ==
            doctest::Approx(there.row[std::size_t(d)]).epsilon(1e-12));
  }
}

TEST_CASE("max_logit is an output more, and leaves o as it is") {
  const StageValues values("output max_logit");
  CHECK(values.graph().outputs().size() == 3);
  CHECK(values.graph().output("max_logit").valid());
  CHECK(as<Attend>(values.graph().node(values.graph().operand(values.graph().output("o"), 0))));
}

TEST_CASE("dropout keeps a share of 1 - p, scaled, by position and seed alone") {
  StageValues values("param seed : i32; weights dropout(0.25, seed)"),
      other("param seed : i32; weights dropout(0.25, seed)");
  values.score = other.score = 3;
  values.tensors["seed"] = {7};
  other.tensors["seed"] = {8};
  int kept = 0, changed = 0;
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t j = 0; j < 50; ++j) {
      const At at{.b = i % 2, .h = j % 8, .i = i, .j = j};
      const double weight = values.weight(at);
      CHECK((weight == 0 || weight == 3 / 0.75));
      kept += weight != 0;
      changed += (weight != 0) != (other.weight(at) != 0);
    }
  CHECK(kept > 1400);  // of 2000: 1500 expected, five standard deviations are 97
  CHECK(kept < 1600);
  CHECK(changed > 600);  // 750 expected
  CHECK(changed < 900);
}

TEST_CASE("a kept weight is where philox of seed, b heads + h, i and j is at least p") {
  StageValues values("param seed : i32; weights dropout(0.5, seed)");
  values.score = 1;
  values.tensors["seed"] = {-12345};
  const std::array<double, 4> operands{-12345, 1 * 8 + 3, 1000, 70000};
  const double random = info(ScalarOp::philox).value(operands);
  CHECK((values.weight({.b = 1, .h = 3, .i = 1000, .j = 70000}) != 0) == (random >= 0.5));
}

TEST_CASE("what stands in weights and output lines may depend on, and mistakes in arguments, are told") {
  const auto complaint = [](const std::string& lines) {
    const auto graph = parse_one("attention t { heads 2 head_dim 16 dtype f32 " + lines + " }");
    REQUIRE_FALSE(graph);
    return graph.errors().front().message;
  };
  CHECK(complaint("output x * j") ==
        "index j cannot be used in an output expression, which may depend on {b,h,i,d}");
  CHECK(complaint("output x > 1") == "'x > 1' is bool; an output expression must be a number");
  CHECK(complaint("output 2 * i") == "'2 * i' does not use x: the output so far would be lost");
  CHECK(complaint("weights x * d") ==
        "index d cannot be used in a weights expression, which may depend on {b,h,i,j}");
  CHECK(complaint("weights x + 1") == "a weights expression must be x times a factor that does not read x");
  CHECK(complaint("weights dropout(1.5, i)") ==
        "p of dropout is 1.5; it must lie between 0 and 1, and not be 1");
  CHECK(complaint("weights dropout(0.5, 0.5)") == "seed of dropout is f32; it must be i32");
  CHECK(complaint("normalize relu output max_logit") ==
        "output \"max_logit\" is of a softmax; this program normalizes otherwise");
  CHECK(complaint("output max_logit output max_logit") ==
        "output \"max_logit\" is written 2 times; it may be once");
  CHECK(complaint("param w : f32[3] output norm(weight = w)") ==
        "weight of norm must be a tensor f32[heads, v_head_dim] in an output line");
}

}  // namespace
}  // namespace attnfuse
