#include "ir/graph.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/test_program.h"

namespace attnfuse {
namespace {

TEST_CASE("types and axes follow from kinds and operands") {
  const Graph graph = TestProgram{}.build();
  const auto axes = [&](NodeId id) { return to_string(graph.node(id).axes); };
  const NodeId scores = find<Scores>(graph);
  CHECK(axes(graph.operand(scores, 0)) == "{b,h,i,d}");
  CHECK(axes(graph.operand(scores, 1)) == "{b,g,j,d}");
  CHECK(axes(scores) == "{b,h,i,j}");
  CHECK(axes(find<Attend>(graph)) == "{b,h,i,d}");
  CHECK(axes(graph.output("lse")) == "{b,h,i}");
  CHECK_FALSE(graph.output("weights").valid());
}

TEST_CASE("elementwise values depend on what their operands depend on") {
  Graph graph;
  const TensorId table =
      graph.add_tensor({"allowed", DType::boolean, TensorRole::captured, {{std::int64_t{4}}}, false, {}, {}});
  CHECK(graph.find_tensor("allowed") == table);
  CHECK_FALSE(graph.find_tensor("other").valid());
  const NodeId sum = graph.apply(ScalarOp::iadd, {graph.index(Axis::i), graph.index(Axis::d)});
  CHECK(graph.node(sum).type == ValueType::i32);
  CHECK(to_string(graph.node(sum).axes) == "{i,d}");
  const NodeId gathered = graph.add(Gather{table}, {sum});
  CHECK(graph.node(gathered).type == ValueType::boolean);
  CHECK(to_string(graph.node(gathered).axes) == "{i,d}");
  const NodeId reduced = graph.add(Reduce{ReduceOp::max}, {graph.add(Apply{ScalarOp::to_f32}, {sum})});
  CHECK(graph.node(reduced).type == ValueType::f32);
  CHECK(to_string(graph.node(reduced).axes) == "{i}");
  CHECK(graph.operands(gathered) == std::vector{sum});
  CHECK(graph.operand(sum, 1) == NodeId{1});
}

TEST_CASE("operands that do not exist are refused") {
  Graph graph;
  CHECK_THROWS_AS(graph.add(Apply{ScalarOp::neg}, {NodeId{0}}), InternalError);
  CHECK_THROWS_AS(graph.add(Apply{ScalarOp::neg}, {NodeId{}}), InternalError);
  CHECK_THROWS_AS(graph.operand(graph.constant(1), 0), InternalError);
}

TEST_CASE("execution order puts operands before users") {
  const Graph graph = TestProgram{}.build();
  const std::vector<NodeId> order = execution_order(graph);
  REQUIRE(order.size() == graph.size());
  std::vector<bool> done(graph.size());
  for (NodeId id : order) {
    for (NodeId operand : graph.operands(id)) CHECK(done[operand.value]);
    done[id.value] = true;
  }
}

TEST_CASE("a cone is what the roots depend on, and uses are counted inside it") {
  Graph graph;
  const NodeId x = graph.variable("x", ValueType::f32);
  const NodeId square = graph.apply(ScalarOp::mul, {x, x});
  const NodeId other = graph.apply(ScalarOp::neg, {x});
  CHECK(cone(graph, {square}) == std::vector{x, square});
  CHECK(use_counts(graph, {square}) == std::map<NodeId, int>{{x, 2}, {square, 0}});
  CHECK(use_counts(graph, {square, other}).at(x) == 3);
  CHECK(cone(graph, {}).empty());
}

TEST_CASE("an elementwise cone ends at leaves") {
  const Graph graph = TestProgram{}.build();
  const NodeId scores = find<Scores>(graph);
  CHECK(elementwise_cone(graph, {scores}) == std::vector{scores});
  CHECK(cone(graph, {scores}).size() == 3);
}

TEST_CASE("rewriting copies what is live and replaces what it is asked to") {
  TestProgram program;
  program.score = [](Graph& graph, NodeId x) {
    graph.apply(ScalarOp::exp, {x});  // dead
    return graph.apply(ScalarOp::mul, {x, graph.constant(2)});
  };
  const Graph graph = program.build();
  const Graph copy = rewrite_live(graph, [](Graph&, const Graph&, NodeId, auto) { return NodeId{}; });
  CHECK(copy.size() == graph.size() - 1);
  CHECK(verify(copy).empty());
  CHECK(copy.outputs().size() == 2);
  CHECK(copy.tensors().size() == 3);

  const Graph doubled =
      rewrite_live(graph, [](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> operands) {
        const auto* apply = as<Apply>(from.node(id));
        if (!apply || apply->op != ScalarOp::mul) return NodeId{};
        return to.apply(ScalarOp::add, {operands[0], operands[0]});
      });
  const NodeId score = doubled.operand(find<Normalize>(doubled), 0);
  CHECK(as<Apply>(doubled.node(score))->op == ScalarOp::add);
  CHECK(doubled.operands(score)[0] == find<Scores>(doubled));
}

TEST_CASE("rewriting keeps the types of leaves") {
  Graph graph;
  const NodeId three = graph.constant(3, ValueType::i32);
  graph.add(Output{"o"},
            {graph.apply(ScalarOp::iadd, {three, graph.variable("t", ValueType::i32, {Axis::i})})});
  const Graph copy = rewrite_live(graph, [](Graph&, const Graph&, NodeId, auto) { return NodeId{}; });
  CHECK(print(copy) == print(graph));
}

}  // namespace
}  // namespace attnfuse
