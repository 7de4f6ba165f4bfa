#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/test_program.h"
#include "passes/passes.h"
#include "passes/random_expression.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

// The score expression after simplify, as text.
std::string simplified_score(const TestProgram::Expression& score) {
  TestProgram program;
  program.score = score;
  const Graph graph = simplify(program.build()).value();
  const NodeId normalize = graph.operand(graph.operand(graph.output("o"), 0), 0);
  return expression_text(graph, graph.operand(normalize, 0), find<Scores>(graph));
}

std::string simplified_mask(const TestProgram::Expression& mask) {
  TestProgram program;
  program.mask = mask;
  const Graph graph = simplify(program.build()).value();
  const NodeId normalize = graph.operand(graph.operand(graph.output("o"), 0), 0);
  return expression_text(graph, graph.operand(normalize, 1));
}

bool close(double got, double wanted) {
  if (std::isnan(wanted) || std::isinf(wanted)) return std::isnan(wanted) ? std::isnan(got) : got == wanted;
  return std::fabs(got - wanted) <= 1e-9 * (1 + std::fabs(wanted));
}

}  // namespace

TEST_CASE("Simplified random expressions keep their values, NaN and infinity included") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kScores[] = {0.75, -1.5, 0, 2.25, kInfinity, -kInfinity, NAN};
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    TestProgram program;
    program.score = [&](Graph& graph, NodeId x) {
      RandomExpression random(graph, seed);
      random.i32_leaves = {graph.index(Axis::i), graph.index(Axis::j), graph.index(Axis::h),
                           graph.add(SizeOf{Size::skv}), graph.add(SizeOf{Size::heads})};
      random.f32_leaves = {x};
      return graph.apply(Op::add, {x, random.f32(5)});
    };
    const Graph before = program.build();
    const Graph after = simplify(before).value();
    const auto score = [](const Graph& graph) {
      return graph.operand(graph.operand(graph.operand(graph.output("o"), 0), 0), 0);
    };
    CAPTURE(expression_text(before, score(before), find<Scores>(before)));
    CAPTURE(expression_text(after, score(after), find<Scores>(after)));
    for (int k = 0; k < 12; ++k) {
      EvaluateContext context;
      for (std::int64_t& index : context.index) index = (k * 7 + 3) % 11;
      for (std::int64_t& size : context.sizes) size = 4 + k % 5;
      context.leaf = [&](NodeId) { return kScores[k % 7]; };
      CHECK(close(evaluate(after, score(after), context), evaluate(before, score(before), context)));
    }
  }
}

TEST_CASE("Constant factors are collected") {
  CHECK(simplified_score([](Graph& g, NodeId x) {
          const NodeId scaled = g.apply(Op::mul, {g.constant(0.5), g.apply(Op::neg, {x})});
          return g.apply(Op::div, {g.apply(Op::mul, {scaled, g.constant(4)}), g.constant(8)});
        }) == "x * -0.25");
}

TEST_CASE("Sizes that are compiled in become constants and fold") {
  CHECK(simplified_score([](Graph& g, NodeId x) {
          const NodeId dim = g.apply(Op::to_f32, {g.add(SizeOf{Size::head_dim})});
          return g.apply(Op::div, {x, g.apply(Op::sqrt, {dim})});
        }) == "x * 0.125");
}

TEST_CASE("A product with zero is kept, because the score may be infinite") {
  CHECK(simplified_score([](Graph& g, NodeId x) { return g.apply(Op::mul, {x, g.constant(0)}); }) ==
        "x * 0.0");
}

TEST_CASE("A quotient of whole numbers is not replaced by a product with the reciprocal") {
  CHECK(simplified_score([](Graph& g, NodeId x) {
          const NodeId i = g.apply(Op::to_f32, {g.index(Axis::i)});
          return g.apply(Op::add, {x, g.apply(Op::floor, {g.apply(Op::div, {i, g.constant(49)})})});
        }).find("/ 49") != std::string::npos);
}

TEST_CASE("A result that is not finite is not folded") {
  CHECK(simplified_score([](Graph& g, NodeId x) {
          return g.apply(Op::add, {x, g.apply(Op::log, {g.constant(0)})});
        }).find("log") != std::string::npos);
}

TEST_CASE("Comparisons of converted integers become integer comparisons") {
  CHECK(simplified_mask([](Graph& g, NodeId) {
          const NodeId distance =
              g.apply(Op::to_f32, {g.apply(Op::isub, {g.index(Axis::i), g.index(Axis::j)})});
          return g.apply(Op::logical_not, {g.apply(Op::ge, {g.constant(2.5), distance})});
        }) == "i - j > 2");
}

TEST_CASE("Two ways to write one inequality are one") {
  CHECK(simplified_mask([](Graph& g, NodeId) {
          const NodeId distance = g.apply(Op::isub, {g.index(Axis::i), g.index(Axis::j)});
          const NodeId causal = g.apply(Op::ile, {g.index(Axis::j), g.index(Axis::i)});
          return g.apply(Op::logical_and,
                         {causal, g.apply(Op::ige, {distance, g.constant(0, ValueType::i32)})});
        }) == "i >= j");
}

TEST_CASE("Offsets are collected and cancel") {
  CHECK(simplified_mask([](Graph& g, NodeId) {
          const auto i32 = [&](double value) { return g.constant(value, ValueType::i32); };
          const NodeId up = g.apply(Op::isub, {g.apply(Op::iadd, {i32(5), g.index(Axis::i)}), i32(7)});
          const NodeId down = g.apply(Op::iadd, {g.apply(Op::isub, {g.index(Axis::j), i32(3)}), i32(3)});
          return g.apply(Op::ilt, {down, up});
        }) == "i - 2 > j");
}

TEST_CASE("Equal expressions are computed once") {
  TestProgram program;
  program.score = [](Graph& g, NodeId x) {
    const auto term = [&](bool swap) {
      const NodeId j = g.apply(Op::to_f32, {g.index(Axis::j)});
      return swap ? g.apply(Op::mul, {j, x}) : g.apply(Op::mul, {x, j});
    };
    return g.apply(Op::add, {term(true), term(false)});
  };
  const Graph graph = simplify(program.build()).value();
  const NodeId sum = graph.operand(graph.operand(graph.operand(graph.output("o"), 0), 0), 0);
  CHECK(graph.operand(sum, 0) == graph.operand(sum, 1));
}

TEST_CASE("Choices and logic with constants disappear") {
  CHECK(simplified_mask([](Graph& g, NodeId) {
          const NodeId causal = g.apply(Op::ile, {g.index(Axis::j), g.index(Axis::i)});
          const NodeId yes = g.constant(1, ValueType::boolean);
          const NodeId no = g.apply(Op::ilt, {g.add(SizeOf{Size::heads}), g.constant(2, ValueType::i32)});
          const NodeId both = g.apply(Op::logical_and, {causal, yes});
          return g.apply(Op::logical_or, {no, g.apply(Op::logical_and, {both, causal})});
        }) == "j <= i");
}

}  // namespace attnfuse
