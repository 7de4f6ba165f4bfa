#include <doctest/doctest.h>

#include <cmath>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/test_program.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

// theta^(-2 (d mod half) / count), the frequency of RoPE.
NodeId frequency(Graph& g, double theta) {
  const NodeId pair = g.apply(Op::imod, {g.index(Axis::d), g.constant(32, ValueType::i32)});
  const NodeId exponent = g.apply(Op::mul, {g.apply(Op::to_f32, {pair}), g.constant(-std::log2(theta) / 32)});
  return g.apply(Op::exp2, {exponent});
}

TestProgram::Expression turned(Axis axis, double theta) {
  return [=](Graph& g, NodeId x) {
    const NodeId angle = g.apply(Op::mul, {g.apply(Op::to_f32, {g.index(axis)}), frequency(g, theta)});
    return g.apply(Op::mul, {x, g.apply(Op::cos, {angle})});
  };
}

std::vector<TensorInfo> tables(const Graph& graph) {
  std::vector<TensorInfo> result;
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role == TensorRole::constant) result.push_back(tensor);
  return result;
}

}  // namespace

TEST_CASE("The frequencies of query and key are one table of exact values") {
  TestProgram program;
  program.query = turned(Axis::i, 10000);
  program.key = turned(Axis::j, 10000);
  const Graph graph = tabulate(program.build()).value();
  CHECK(verify(graph).empty());
  REQUIRE(tables(graph).size() == 1);
  const TensorInfo table = tables(graph)[0];
  REQUIRE(table.values.size() == 64);
  for (int d = 0; d < 64; ++d)
    CHECK(table.values[std::size_t(d)] ==
          doctest::Approx(std::pow(10000.0, -(d % 32) / 32.0)).epsilon(1e-14));
  for (NodeId id : cone(graph, graph.outputs())) {
    const auto* apply = as<Apply>(graph.node(id));
    CHECK((!apply || apply->op != Op::exp2));
  }
}

TEST_CASE("Different frequencies are different tables") {
  TestProgram program;
  program.query = turned(Axis::i, 10000);
  program.key = turned(Axis::j, 500000);
  CHECK(tables(tabulate(program.build()).value()).size() == 2);
}

TEST_CASE("A table is as long as the longest stage that may read it") {
  TestProgram program;
  program.info.v_head_dim = 128;
  program.key = turned(Axis::j, 10000);
  program.value = turned(Axis::j, 10000);
  const std::vector<TensorInfo> found = tables(tabulate(program.build()).value());
  REQUIRE(found.size() == 1);
  CHECK(found[0].values.size() == 128);
}

TEST_CASE("A captured tensor's name is not taken") {
  TestProgram program;
  program.captured = {{"d_table0", DType::f32, TensorRole::captured, {{Size::heads}}, false, {}, {}}};
  program.key = turned(Axis::j, 10000);
  const Graph graph = tabulate(program.build()).value();
  CHECK(verify(graph).empty());
  CHECK(tables(graph).size() == 1);
}

TEST_CASE("Cheap expressions of d and values that are not finite stay expressions") {
  TestProgram program;
  program.query = [](Graph& g, NodeId x) {
    const NodeId sign =
        g.apply(Op::select, {g.apply(Op::ilt, {g.index(Axis::d), g.constant(32, ValueType::i32)}),
                             g.constant(-1), g.constant(1)});
    const NodeId infinite = g.apply(Op::log, {g.apply(Op::to_f32, {g.index(Axis::d)})});
    return g.apply(Op::mul, {g.apply(Op::mul, {x, sign}), infinite});
  };
  CHECK(tables(tabulate(program.build()).value()).empty());
}

}  // namespace attnfuse
