#include "ir/analysis.h"

#include "ir/algorithm.h"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "ir/test_program.h"

namespace attnfuse {
namespace {

constexpr unsigned kSeed = 99;

Graph program_graph() { return Graph({"p", 6, 3, 32, 64, DType::f16, {}}); }

TEST_CASE("sizes that are compiled in come from the program, the others from the context") {
  Graph graph = program_graph();
  EvaluateContext context;
  IntervalContext ranges;
  const int wanted[] = {5, 6, 3, 7, 9, 32, 64};
  for (Size size : {Size::batch, Size::sq, Size::skv}) {
    context.sizes[std::size_t(size)] = wanted[std::size_t(size)];
    ranges.sizes[std::size_t(size)] = Interval::point(wanted[std::size_t(size)]);
  }
  for (int k = 0; k < 7; ++k) {
    const NodeId size = graph.add(SizeOf{Size(k)});
    CHECK(evaluate(graph, size, context) == wanted[k]);
    CHECK(interval_of(graph, size, ranges) == Interval::point(wanted[k]));
  }
}

TEST_CASE("gathers read the element at clamped indices") {
  Graph graph = program_graph();
  const TensorId bias = graph.add_tensor(
      {"bias", DType::f32, TensorRole::captured, {{Size::heads}, {Size::skv}}, false, {}, {}});
  const NodeId gather = graph.add(Gather{bias}, {graph.index(Axis::h), graph.index(Axis::j)});
  EvaluateContext context;
  context.sizes[std::size_t(Size::skv)] = 10;
  context.element = [](TensorId, std::span<const std::int64_t> index) {
    return double(index[0] * 100 + index[1]);
  };
  const auto at = [&](std::int64_t h, std::int64_t j) {
    context.index[std::size_t(Axis::h)] = h;
    context.index[std::size_t(Axis::j)] = j;
    return evaluate(graph, gather, context);
  };
  CHECK(at(2, 3) == 203);
  CHECK(at(-1, 3) == 3);
  CHECK(at(99, 99) == 509);
  context.sizes[std::size_t(Size::skv)] = 0;
  CHECK(at(2, 3) == 0);
}

TEST_CASE("constant tables are read from the graph, and their range is that of their values") {
  Graph graph = program_graph();
  const TensorId table = graph.add_tensor({"t",
                                           DType::f32,
                                           TensorRole::constant,
                                           {{std::int64_t{2}}, {std::int64_t{3}}},
                                           false,
                                           {1, 2, 3, -4, 5, 6},
                                           {}});
  const NodeId one = graph.constant(1, ValueType::i32);
  const NodeId gather = graph.add(Gather{table}, {one, graph.index(Axis::d)});
  EvaluateContext context;
  CHECK(evaluate(graph, gather, context) == -4);
  context.index[std::size_t(Axis::d)] = 2;
  CHECK(evaluate(graph, gather, context) == 6);
  CHECK(interval_of(graph, gather, {}) == Interval{-4, 6});
}

TEST_CASE("leaves come from the caller, and a missing one is our mistake") {
  const Graph graph = TestProgram{}.build();
  Graph extended = graph;
  const NodeId scores{2};
  REQUIRE(as<Scores>(extended.node(scores)));
  const NodeId doubled = extended.apply(ScalarOp::add, {scores, scores});
  EvaluateContext context;
  CHECK_THROWS_AS(evaluate(extended, doubled, context), InternalError);
  context.leaf = [&](NodeId id) { return id == scores ? 1.5 : NAN; };
  CHECK(evaluate(extended, doubled, context) == 3);
  CHECK(interval_of(extended, doubled, {}).is_everything());
}

TEST_CASE("an evaluator gives the values of all its roots at each place") {
  Graph graph;
  const NodeId i = graph.index(Axis::i);
  const NodeId square = graph.apply(ScalarOp::imul, {i, i});
  const NodeId other = graph.apply(ScalarOp::ineg, {square});
  Evaluator evaluator(graph, {other, square, i});
  EvaluateContext context;
  for (int k = 0; k < 5; ++k) {
    context.index[std::size_t(Axis::i)] = k;
    CHECK(evaluator(context) == -k * k);
    CHECK(evaluator.value(1) == k * k);
    CHECK(evaluator.value(2) == k);
  }
}

TEST_CASE("unknown leaves are everything, and unknown truth values may be either") {
  Graph graph;
  CHECK(interval_of(graph, graph.variable("x", ValueType::f32), {}).is_everything());
  CHECK(interval_of(graph, graph.variable("m", ValueType::boolean), {}) == Interval::truth());
  CHECK(interval_of(graph, graph.constant(NAN), {}).is_everything());
}

TEST_CASE("a sliding window is decided by the positions of its tile") {
  Graph graph;
  const NodeId distance = graph.apply(ScalarOp::isub, {graph.index(Axis::i), graph.index(Axis::j)});
  const NodeId zero = graph.constant(0, ValueType::i32);
  const NodeId width = graph.constant(64, ValueType::i32);
  const NodeId window = graph.apply(ScalarOp::logical_and, {graph.apply(ScalarOp::ige, {distance, zero}),
                                                            graph.apply(ScalarOp::ilt, {distance, width})});
  const auto tile = [&](double i, double j) {
    IntervalContext context;
    context.index[std::size_t(Axis::i)] = {i, i + 15};
    context.index[std::size_t(Axis::j)] = {j, j + 15};
    return interval_of(graph, window, context);
  };
  CHECK(tile(0, 16) == Interval::point(0));
  CHECK(tile(16, 0) == Interval::point(1));
  CHECK(tile(16, 16) == Interval::truth());
  CHECK(tile(48, 0) == Interval::point(1));
  CHECK(tile(64, 0) == Interval::truth());
  CHECK(tile(128, 0) == Interval::point(0));
}

// Random well-typed expressions over i, j, constants, sizes and an unknown number.
class Expressions {
 public:
  explicit Expressions(unsigned seed) : engine_(seed) {}
  int draw(int lo, int hi) { return std::uniform_int_distribution(lo, hi)(engine_); }

  NodeId build(Graph& graph, ValueType type, int depth) {
    if (depth == 0) return leaf(graph, type);
    std::vector<const ScalarOpInfo*> fitting;
    for (const ScalarOpInfo& op : scalar_ops())
      if (op.result == type) fitting.push_back(&op);
    const ScalarOpInfo& op = *fitting[std::size_t(draw(0, int(fitting.size()) - 1))];
    std::vector<NodeId> operands;
    for (int k = 0; k < op.arity; ++k) operands.push_back(build(graph, op.operand[k], depth - 1));
    return graph.add(Apply{op.op}, operands);
  }

 private:
  NodeId leaf(Graph& graph, ValueType type) {
    switch (type) {
      case ValueType::boolean:
        return graph.constant(draw(0, 1), type);
      case ValueType::f32:
        return draw(0, 3) == 0 ? graph.variable("x", type) : graph.constant(draw(-8, 8) / 4.0);
      case ValueType::i32:
        break;
    }
    switch (draw(0, 3)) {
      case 0:
        return graph.constant(draw(-5, 5), type);
      case 1:
        return graph.add(SizeOf{Size::skv});
      case 2:
        return graph.index(Axis::i);
      default:
        return graph.index(Axis::j);
    }
  }
  std::mt19937 engine_;
};

TEST_CASE("the range of a random expression holds its values") {
  Expressions random(kSeed);
  for (int trial = 0; trial < 3000; ++trial) {
    Graph graph = program_graph();
    const auto type = ValueType(random.draw(0, 2));
    const NodeId root = random.build(graph, type, random.draw(1, 4));
    const int i = random.draw(-3, 40), j = random.draw(0, 40), rows = random.draw(1, 9),
              skv = random.draw(0, 50);
    IntervalContext ranges;
    ranges.index[std::size_t(Axis::i)] = {double(i), double(i + rows - 1)};
    ranges.index[std::size_t(Axis::j)] = {double(j), double(j + rows - 1)};
    ranges.sizes[std::size_t(Size::skv)] = {double(skv), std::numeric_limits<double>::infinity()};
    const Interval range = interval_of(graph, root, ranges);
    std::vector<NodeId> roots{root};
    for (NodeId id : cone(graph, {root}))
      if (graph.node(id).type == ValueType::i32) roots.push_back(id);
    Evaluator evaluator(graph, roots);
    // Integers are taken to fit.
    const auto fits = [&] {
      for (std::size_t k = 1; k < roots.size(); ++k)
        if (std::abs(evaluator.value(k)) > INT32_MAX) return false;
      return true;
    };
    for (int sample = 0; sample < 20; ++sample) {
      EvaluateContext context;
      context.index[std::size_t(Axis::i)] = i + random.draw(0, rows - 1);
      context.index[std::size_t(Axis::j)] = j + random.draw(0, rows - 1);
      context.sizes[std::size_t(Size::skv)] = skv + random.draw(0, 1) * random.draw(0, 100);
      const double unknown =
          std::vector<double>{0, -1.5, 3e5, INFINITY, -INFINITY, NAN}[std::size_t(random.draw(0, 5))];
      context.leaf = [&](NodeId) { return unknown; };
      const double value = evaluator(context);
      if (!fits() || (std::isnan(value) ? range.is_everything() : range.contains(value))) continue;
      FAIL("seed ", kSeed, " trial ", trial, ": ", value, " is not in [", range.lo, ", ", range.hi, "] for ",
           expression_text(graph, root), "\n", print(graph));
    }
  }
}

}  // namespace
}  // namespace attnfuse
