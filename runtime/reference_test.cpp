#include "runtime/reference.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <random>

#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using At = std::vector<std::int64_t>;
// Score from the dot product, or nothing where the mask forbids.
using ScoreOf = std::function<double(double x, int b, int h, int i, int j)>;
using AllowedAt = std::function<bool(int b, int h, int i, int j)>;

// Textbook attention, straight from the definition: no maximum is subtracted.
void check_formula(const ReferenceOutputs& got, const ProgramInfo& info, const HostTensors& in, Sizes sizes,
                   const ScoreOf& score, const AllowedAt& allowed, const std::vector<double>& sink = {}) {
  std::size_t row = 0;
  for (int b = 0; b < sizes.batch; ++b)
    for (int h = 0; h < info.heads; ++h)
      for (int i = 0; i < sizes.sq; ++i, ++row) {
        const int g = h * info.kv_heads / info.heads;
        std::vector<double> numerator(std::size_t(info.v_head_dim));
        double denominator = sink.empty() ? 0 : std::exp(sink[std::size_t(h)]);
        bool empty = true;
        for (int j = 0; j < sizes.skv; ++j) {
          if (!allowed(b, h, i, j)) continue;
          empty = false;
          double x = 0;
          for (int d = 0; d < info.head_dim; ++d)
            x += in.at("q").get(At{b, h, i, d}) * in.at("k").get(At{b, g, j, d});
          const double weight = std::exp(score(x, b, h, i, j));
          denominator += weight;
          for (int d = 0; d < info.v_head_dim; ++d)
            numerator[std::size_t(d)] += weight * in.at("v").get(At{b, g, j, d});
        }
        INFO("b " << b << " h " << h << " i " << i);
        const double lse = std::log(denominator);
        if (std::isinf(lse))
          CHECK(got.lse[row] == lse);
        else
          CHECK(got.lse[row] == doctest::Approx(lse).epsilon(1e-12));
        for (int d = 0; d < info.v_head_dim; ++d) {
          const double wanted = empty ? 0 : numerator[std::size_t(d)] / denominator;
          const double found = got.o[row * std::size_t(info.v_head_dim) + std::size_t(d)];
          if (std::abs(found - wanted) > 1e-12 * (1 + std::abs(wanted)))
            FAIL_CHECK("o: got " << found << ", wanted " << wanted);
        }
      }
  CHECK(got.lse.size() == row);
  CHECK(got.o.size() == row * std::size_t(info.v_head_dim));
}

bool everything(int, int, int, int) { return true; }

}  // namespace

TEST_CASE("scaled attention with grouped heads and its own value dim equals the textbook formula") {
  Program p(small());
  const Graph graph = p.finish(p.op(ScalarOp::mul, p.scores(), p.graph.constant(0.25)), p.all());
  const Sizes sizes{2, 3, 5};
  const HostTensors in = inputs_for(small(), sizes);
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  check_formula(*got, small(), in, sizes, [](double x, int, int, int, int) { return 0.25 * x; }, everything);
}

TEST_CASE("rows without an allowed key give zero and minus infinity, also when they come first") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId shift = g.apply(ScalarOp::isub, {g.add(SizeOf{Size::skv}), g.add(SizeOf{Size::sq})});
  const NodeId mask = p.op(ScalarOp::ige, p.op(ScalarOp::iadd, g.index(Axis::i), shift), g.index(Axis::j));
  const Graph graph = p.finish(p.scores(), mask);
  const Sizes sizes{1, 6, 4};
  const HostTensors in = inputs_for(small(), sizes);
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  check_formula(
      *got, small(), in, sizes, [](double x, int, int, int, int) { return x; },
      [](int, int, int i, int j) { return i - 2 >= j; });
  CHECK(got->lse[0] == -kInfinity);
  CHECK(got->lse[2] != -kInfinity);
}

TEST_CASE("a sink enters the denominator once, and is the log-sum-exp of an empty row") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId sink = p.captured("sink", DType::f32, {{Size::heads}}, {g.index(Axis::h)});
  const Graph graph = p.finish(p.scores(), p.op(ScalarOp::ilt, g.index(Axis::j), g.index(Axis::i)), sink);
  const Sizes sizes{2, 3, 4};
  HostTensors in = inputs_for(small(), sizes);
  in["sink"] = filled(DType::f32, {4}, 9);
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  std::vector<double> sinks;
  for (int h = 0; h < 4; ++h) sinks.push_back(in["sink"].get(At{h}));
  check_formula(
      *got, small(), in, sizes, [](double x, int, int, int, int) { return x; },
      [](int, int, int i, int j) { return j < i; }, sinks);
  CHECK(got->lse[0] == doctest::Approx(sinks[0]));
}

TEST_CASE(
    "scores are weights where nothing normalizes them, and retention divides by the size of their sum") {
  for (NormalizeKind kind : {NormalizeKind::none, NormalizeKind::retention})
    for (double scale : {0.05, 3.0}) {
      CAPTURE(int(kind));
      CAPTURE(scale);
      Program p(small());
      Graph& g = p.graph;
      const NodeId mask = p.op(ScalarOp::ilt, g.index(Axis::j), g.index(Axis::i));
      const Graph graph = p.finish(p.op(ScalarOp::mul, p.scores(), g.constant(scale)), mask, {}, kind);
      const HostTensors in = inputs_for(small(), {2, 4, 6});
      const auto got = reference(graph, in);
      REQUIRE(got.ok());
      std::size_t row = 0;
      for (int b = 0; b < 2; ++b)
        for (int h = 0; h < 4; ++h)
          for (int i = 0; i < 4; ++i, ++row) {
            double total = 0;
            std::vector<double> sums(16);
            for (int j = 0; j < i; ++j) {
              double score = 0;
              for (int d = 0; d < 8; ++d)
                score += in.at("q").get(At{b, h, i, d}) * in.at("k").get(At{b, h / 2, j, d});
              total += scale * score;
              for (int d = 0; d < 16; ++d)
                sums[std::size_t(d)] += scale * score * in.at("v").get(At{b, h / 2, j, d});
            }
            const bool divides = kind == NormalizeKind::retention && std::abs(total) > 1;
            const double divisor = divides ? std::abs(total) : 1;
            CHECK(got->lse[row] == doctest::Approx(std::log(divisor)));
            for (std::size_t d = 0; d < 16; ++d)
              CHECK(got->o[row * 16 + d] == doctest::Approx(sums[d] / divisor));
          }
    }
}

TEST_CASE("masked keys and values never influence the result, whatever bits they hold") {
  Program p(small());
  const Graph graph =
      p.finish(p.scores(), p.op(ScalarOp::ine, p.graph.index(Axis::j), p.graph.constant(1, ValueType::i32)));
  HostTensors in = inputs_for(small(), {1, 2, 4});
  const auto clean = reference(graph, in);
  for (double stale : {kNan, kInfinity, -kInfinity, 1e30}) {
    for (int d = 0; d < 8; ++d) in["k"].set(At{0, 1, 1, d}, stale);
    for (int d = 0; d < 16; ++d) in["v"].set(At{0, 1, 1, d}, stale);
    for (Rounding rounding : {Rounding::none, Rounding::naive}) {
      const auto got = reference(graph, in, rounding);
      REQUIRE(got.ok());
      if (rounding == Rounding::none) CHECK(got->o == clean->o);
      for (double value : got->o) CHECK(std::isfinite(value));
    }
  }
}

TEST_CASE("an allowed value that is not finite reaches the rows that see it, even at a vanishing weight") {
  Program p(small());
  const Graph graph = p.finish(p.op(ScalarOp::mul, p.scores(), p.graph.constant(1e4)),
                               p.op(ScalarOp::ile, p.graph.index(Axis::j), p.graph.index(Axis::i)));
  HostTensors in = inputs_for(small(), {1, 3, 3});
  in["v"].set(At{0, 0, 1, 5}, kInfinity);
  in["k"] = HostTensor::zeros(in["k"].layout);
  for (int d = 0; d < 8; ++d) in["k"].set(At{0, 0, 0, d}, in["q"].get(At{0, 0, 2, d}));  // weight of key 1: 0
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  CHECK(std::isfinite(got->o[0 * 16 + 5]));
  CHECK(got->o[1 * 16 + 5] == kInfinity);
  CHECK(got->o[2 * 16 + 5] == kInfinity);
  CHECK(std::isfinite(got->o[2 * 16 + 4]));
}

TEST_CASE("adding a huge constant to all scores of a row moves only the log-sum-exp") {
  const HostTensors in = inputs_for(small(), {1, 3, 7});
  Program plain(small());
  const auto base = reference(plain.finish(plain.scores(), plain.all()), in);
  for (double shift : {-1e5, 1e5}) {
    Program p(small());
    const auto got =
        reference(p.finish(p.op(ScalarOp::add, p.scores(), p.graph.constant(shift)), p.all()), in);
    REQUIRE(got.ok());
    for (std::size_t n = 0; n < got->o.size(); ++n)
      CHECK(got->o[n] == doctest::Approx(base->o[n]).epsilon(1e-9));
    for (std::size_t n = 0; n < got->lse.size(); ++n)
      CHECK(got->lse[n] == doctest::Approx(base->lse[n] + shift));
  }
}

TEST_CASE("empty batches, queries and keys give outputs of the right size") {
  Program p(small());
  const Graph graph = p.finish(p.scores(), p.all());
  for (Sizes sizes : {Sizes{0, 2, 2}, Sizes{1, 0, 2}, Sizes{1, 2, 0}}) {
    const auto got = reference(graph, inputs_for(small(), sizes));
    REQUIRE(got.ok());
    CHECK(got->lse == std::vector<double>(std::size_t(sizes.batch * 4 * sizes.sq), -kInfinity));
    CHECK(got->o == std::vector<double>(std::size_t(sizes.batch * 4 * sizes.sq * 16), 0.0));
  }
}

TEST_CASE("rotary pairs rotate like complex numbers, in both pairings, and leave the rest alone") {
  for (RotaryPairs pairs : {RotaryPairs::half, RotaryPairs::interleaved}) {
    Program p(small());
    Graph& g = p.graph;
    // q' = q cos(i) -/+ partner(q) sin(i) on the first 4 of 8 elements.
    const NodeId angle = g.apply(ScalarOp::to_f32, {g.index(Axis::i)});
    const NodeId d = g.index(Axis::d);
    const auto number = [&](double value) { return g.constant(value, ValueType::i32); };
    const NodeId is_first = pairs == RotaryPairs::half
                                ? p.op(ScalarOp::ilt, d, number(2))
                                : p.op(ScalarOp::ieq, p.op(ScalarOp::imod, d, number(2)), number(0));
    const NodeId sine = g.apply(ScalarOp::sin, {angle});
    const NodeId signed_sine = g.apply(ScalarOp::select, {is_first, g.apply(ScalarOp::neg, {sine}), sine});
    const NodeId rotated = p.op(ScalarOp::add, p.op(ScalarOp::mul, p.q, g.apply(ScalarOp::cos, {angle})),
                                p.op(ScalarOp::mul, g.add(Partner{pairs, 4}, {p.q}), signed_sine));
    const NodeId q = p.q;
    p.q = g.apply(ScalarOp::select, {p.op(ScalarOp::ilt, d, number(4)), rotated, q});
    const Graph graph = p.finish(p.scores(), p.all());

    const Sizes sizes{1, 3, 4};
    HostTensors in = inputs_for(small(), sizes);
    const auto got = reference(graph, in);
    REQUIRE(got.ok());
    HostTensors turned = in;
    for (int h = 0; h < 4; ++h)
      for (int i = 0; i < 3; ++i)
        for (int pair = 0; pair < 2; ++pair) {
          const int re = pairs == RotaryPairs::half ? pair : 2 * pair,
                    im = pairs == RotaryPairs::half ? pair + 2 : re + 1;
          const std::complex<double> z(in["q"].get(At{0, h, i, re}), in["q"].get(At{0, h, i, im}));
          const std::complex<double> r = z * std::polar(1.0, double(i));
          turned["q"].layout.dtype = in["q"].layout.dtype;
          turned["q"].set(At{0, h, i, re}, r.real());
          turned["q"].set(At{0, h, i, im}, r.imag());
        }
    Program plain(small());
    const auto wanted = reference(plain.finish(plain.scores(), plain.all()), turned);
    for (std::size_t n = 0; n < got->lse.size(); ++n)  // turned is rounded to f32
      CHECK(got->lse[n] == doctest::Approx(wanted->lse[n]).epsilon(1e-6));
  }
}

TEST_CASE("a reduction over the head dim normalises keys token by token") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId square_sum = g.add(Reduce{ReduceOp::sum}, {p.op(ScalarOp::mul, p.k, p.k)});
  p.k = p.op(ScalarOp::mul, p.k, g.apply(ScalarOp::rsqrt, {square_sum}));
  const Graph graph = p.finish(p.scores(), p.all());
  const Sizes sizes{1, 2, 3};
  const HostTensors in = inputs_for(small(), sizes);
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  check_formula(
      *got, small(), in, sizes,
      [&](double x, int b, int h, int, int j) {
        double sum = 0;
        for (int d = 0; d < 8; ++d) sum += std::pow(in.at("k").get(At{b, h / 2, j, d}), 2);
        return x / std::sqrt(sum);
      },
      everything);
}

TEST_CASE("captured tensors are read through their strides, and indices are clamped to the shape") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId distance = p.op(ScalarOp::isub, g.index(Axis::j), g.index(Axis::i));
  const NodeId bias =
      p.captured("bias", DType::bf16, {{Size::heads}, {std::int64_t(3)}}, {g.index(Axis::h), distance});
  const Graph graph = p.finish(p.op(ScalarOp::add, p.scores(), bias), p.all());
  const Sizes sizes{1, 4, 6};
  HostTensors in = inputs_for(small(), sizes);
  HostTensor bias_tensor = HostTensor::zeros({DType::bf16, {4, 3}, {1, 7}});
  for (int h = 0; h < 4; ++h)
    for (int n = 0; n < 3; ++n) bias_tensor.set(At{h, n}, 0.5 * h - n);
  in["bias"] = bias_tensor;
  const auto got = reference(graph, in);
  REQUIRE(got.ok());
  check_formula(
      *got, small(), in, sizes,
      [](double x, int, int h, int i, int j) { return x + 0.5 * h - std::min(std::max(j - i, 0), 2); },
      everything);
}

TEST_CASE("the naive run differs from the exact one by a few roundings of the dtype") {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const double epsilon = dtype == DType::f16 ? 0x1p-10 : dtype == DType::bf16 ? 0x1p-7 : 0x1p-23;
    Program p(small(dtype));
    p.q = p.op(ScalarOp::mul, p.q, p.graph.constant(0.3));
    const Graph graph = p.finish(p.scores(), p.all());
    const HostTensors in = inputs_for(small(dtype), {1, 5, 9});
    const auto exact = reference(graph, in, Rounding::none), naive = reference(graph, in, Rounding::naive);
    REQUIRE(naive.ok());
    double worst = 0;
    for (std::size_t n = 0; n < exact->o.size(); ++n) {
      worst = std::max(worst, std::abs(naive->o[n] - exact->o[n]));
      CHECK(round_to(dtype, naive->o[n]) == naive->o[n]);
    }
    INFO(name(dtype) << " worst error " << worst);
    CHECK(worst > epsilon / 64);
    CHECK(worst < epsilon * 8);
  }
}

TEST_CASE("probabilities of the naive run are rounded before the second product, and their sum is not") {
  ProgramInfo info = small(DType::bf16);
  info.heads = info.kv_heads = 1;
  Program p(info);
  // Two keys, scores 0 and -1.
  const NodeId score =
      p.graph.apply(ScalarOp::neg, {p.graph.apply(ScalarOp::to_f32, {p.graph.index(Axis::j)})});
  const Graph graph = p.finish(score, p.all());
  HostTensors in = inputs_for(info, {1, 1, 2});
  in["v"] = HostTensor::zeros(in["v"].layout);
  in["v"].set(At{0, 0, 1, 0}, 1);
  const auto got = reference(graph, in, Rounding::naive);
  REQUIRE(got.ok());
  const double rounded = round_to(DType::bf16, std::exp(-1.0));
  CHECK(got->o[0] == round_to(DType::bf16, double(float(rounded) / (1 + std::exp(-1.0F)))));
  CHECK(got->lse[0] == doctest::Approx(std::log1p(std::exp(-1.0))).epsilon(1e-7));
}
