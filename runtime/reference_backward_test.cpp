// Against the forward reference's finite differences: conformance/gradient_test.cpp. Here: what is exact.
#include "runtime/reference_backward.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

constexpr Sizes kSizes{2, 4, 6};

NamedValues ones(const Sizes& sizes) {
  const auto rows = std::size_t(sizes.batch * small().heads * sizes.sq);
  return {{"o", std::vector<double>(rows * std::size_t(small().v_head_dim), 1)},
          {"lse", std::vector<double>(rows, 0.5)},
          {"max_logit", std::vector<double>(rows, 0.25)}};
}

NamedValues gradients(const Graph& graph, const HostTensors& in, const Sizes& sizes = kSizes) {
  const auto backward = reference_backward(graph, in, ones(sizes));
  REQUIRE_MESSAGE(backward, render(backward.errors()));
  return backward->gradients;
}

// The elements of one row of a gradient laid out [b, heads, length, dim].
std::vector<double> row(const std::vector<double>& all, std::size_t n, std::size_t dim) {
  return {all.begin() + std::ptrdiff_t(n * dim), all.begin() + std::ptrdiff_t((n + 1) * dim)};
}

bool is_zero(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value == 0; });
}

TensorId wanted(Graph& graph, const char* name, std::vector<Extent> shape) {
  TensorInfo info = declared(name, DType::f32, TensorRole::captured, std::move(shape));
  info.grad = true;
  return graph.add_tensor(std::move(info));
}

}  // namespace

TEST_CASE("rows without an allowed key and keys that no row sees have gradients of exactly zero") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId one = g.constant(1, ValueType::i32);
  const NodeId mask = p.op(ScalarOp::logical_and, p.op(ScalarOp::ine, g.index(Axis::j), one),
                           p.op(ScalarOp::ige, g.index(Axis::i), one));
  const Graph graph = p.finish(p.scores(), mask);
  const NamedValues found = gradients(graph, inputs_for(small(), kSizes));
  for (std::size_t n = 0; n < 8; ++n) {
    CHECK(is_zero(row(found.at("q"), n * 4, 8)));
    CHECK_FALSE(is_zero(row(found.at("q"), n * 4 + 1, 8)));
  }
  for (std::size_t n = 0; n < 4; ++n) {
    CHECK(is_zero(row(found.at("k"), n * 6 + 1, 8)));
    CHECK(is_zero(row(found.at("v"), n * 6 + 1, 16)));
    CHECK_FALSE(is_zero(row(found.at("k"), n * 6 + 2, 8)));
  }
}

TEST_CASE(
    "what masked keys and values hold reaches no gradient, through a norm with a learned weight either") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId weight = g.add(Gather{wanted(g, "w", {{Size::head_dim}})}, {g.index(Axis::d)});
  const NodeId squares = g.add(Reduce{ReduceOp::sum}, {p.op(ScalarOp::mul, p.k, p.k)});
  p.k = p.op(ScalarOp::mul, p.op(ScalarOp::mul, p.k, g.apply(ScalarOp::rsqrt, {squares})), weight);
  const Graph graph =
      p.finish(p.scores(), p.op(ScalarOp::ine, g.index(Axis::j), g.constant(1, ValueType::i32)));
  HostTensors in = inputs_for(small(), kSizes);
  in["w"] = filled(DType::f32, {8}, 4);
  const NamedValues clean = gradients(graph, in);
  for (std::int64_t d = 0; d < 8; ++d) in["k"].set(std::vector<std::int64_t>{0, 1, 1, d}, NAN);
  for (std::int64_t d = 0; d < 16; ++d) in["v"].set(std::vector<std::int64_t>{1, 0, 1, d}, INFINITY);
  CHECK(gradients(graph, in) == clean);
}

TEST_CASE("gradients of the values are the weights, summed over the rows and the heads of a group") {
  Program p(small());
  const Graph graph = p.finish(p.op(ScalarOp::mul, p.scores(), p.graph.constant(0)), p.all());
  const NamedValues found = gradients(graph, inputs_for(small(), kSizes));
  // Every weight is 1 / 6; two heads of 4 rows each.
  for (double value : found.at("v")) CHECK(value == doctest::Approx(8.0 / 6));
  CHECK(is_zero(found.at("q")));
}

TEST_CASE("an empty row's log-sum-exp is its sink, and so is the gradient") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId sink = g.add(Gather{wanted(g, "s", {{Size::heads}})}, {g.index(Axis::h)});
  const Graph graph = p.finish(p.scores(), g.constant(0, ValueType::boolean), sink);
  HostTensors in = inputs_for(small(), kSizes);
  in["s"] = filled(DType::f32, {4}, 9);
  const NamedValues found = gradients(graph, in);
  CHECK(found.at("s") == std::vector<double>(4, 2 * 4 * 0.5));
  CHECK(is_zero(found.at("q")));
  CHECK(is_zero(found.at("k")));
  CHECK(is_zero(found.at("v")));
}

TEST_CASE("rows whose allowed scores are all minus infinity have no gradient, and no NaN") {
  Program p(small());
  Graph& g = p.graph;
  const NodeId bias = g.add(Gather{wanted(g, "bias", {{Size::skv}})}, {g.index(Axis::j)});
  const Graph graph = p.finish(p.op(ScalarOp::add, p.scores(), bias), p.all());
  HostTensors in = inputs_for(small(), kSizes);
  in["bias"] = filled(DType::f32, {6}, 9);
  for (std::int64_t j = 0; j < 6; ++j) in["bias"].set(std::vector<std::int64_t>{j}, -INFINITY);
  for (const auto& [name, values] : gradients(graph, in)) {
    CAPTURE(name);
    CHECK(is_zero(values));
  }
}

TEST_CASE("the largest score's gradient goes to the first key that has it, or to a sink that is as large") {
  for (double sink_value : {-1.0, 0.0}) {
    Program p(small());
    Graph& g = p.graph;
    const NodeId bias = g.add(Gather{wanted(g, "bias", {{Size::skv}})}, {g.index(Axis::j)});
    const NodeId sink = g.add(Gather{wanted(g, "s", {{Size::heads}})}, {g.index(Axis::h)});
    const NodeId weights =
        g.add(Normalize{NormalizeKind::softmax_sink},
              {p.op(ScalarOp::add, p.op(ScalarOp::mul, p.scores(), g.constant(0)), bias), p.all(), sink});
    g.add(Output{"o"}, {g.add(Attend{}, {weights, p.v})});
    g.add(Output{"lse"}, {g.add(LogSumExp{}, {weights})});
    g.add(Output{"max_logit"}, {g.add(RowMax{}, {weights})});
    HostTensors in = inputs_for(small(), kSizes);
    in["bias"] = HostTensor::zeros(TensorLayout::contiguous(DType::f32, {6}));
    in["s"] = HostTensor::zeros(TensorLayout::contiguous(DType::f32, {4}));
    for (std::int64_t h = 0; h < 4; ++h) in["s"].set(std::vector<std::int64_t>{h}, sink_value);
    NamedValues upstream = ones(kSizes);
    upstream.erase("o");
    upstream.erase("lse");
    const auto backward = reference_backward(g, in, upstream);
    REQUIRE(backward);
    const double all = 0.25 * 2 * 4 * 4;
    const std::vector<double> first{all, 0, 0, 0, 0, 0};
    CHECK(backward->gradients.at("bias") == (sink_value < 0 ? first : std::vector<double>(6, 0)));
    CHECK(backward->gradients.at("s") == std::vector<double>(4, sink_value < 0 ? 0 : all / 4));
    CHECK(backward->saved.at("max_key")[0] == (sink_value < 0 ? 0 : -1));
  }
}

TEST_CASE("a tensor that nothing reads has zeros for a gradient") {
  Program p(small());
  wanted(p.graph, "unused", {{Size::heads}});
  const Graph graph = p.finish(p.scores(), p.all());
  HostTensors in = inputs_for(small(), kSizes);
  in["unused"] = filled(DType::f32, {4}, 9);
  CHECK(gradients(graph, in).at("unused") == std::vector<double>(4, 0));
}

TEST_CASE("inputs that do not fit the program are diagnosed") {
  Program p(small());
  const Graph graph = p.finish(p.scores(), p.all());
  const auto backward = reference_backward(graph, {}, {});
  REQUIRE_FALSE(backward);
  CHECK(backward.errors()[0].code == "input.missing");
}
