#include <doctest/doctest.h>

#include "ir/analysis.h"
#include "ir/test_program.h"

namespace attnfuse {
namespace {

std::string complaint(const Graph& graph) { return render(verify(graph)); }

// x plus an index, as a score, query, key or value expression would write it.
TestProgram::Expression plus_index(Axis axis) {
  return [axis](Graph& graph, NodeId x) {
    const NodeId index = graph.apply(ScalarOp::to_f32, {graph.add(Index{axis}, {}, at(4, 9))});
    return graph.apply(ScalarOp::add, {x, index});
  };
}

TEST_CASE("each stage depends on its own axes only") {
  struct Row {
    TestProgram::Expression TestProgram::* stage;
    std::string name, allowed, forbidden;
  };
  const Row rows[] = {
      {&TestProgram::query, "query", "bhid", "gj"},
      {&TestProgram::key, "key", "bgjd", "hi"},
      {&TestProgram::value, "value", "bgjd", "hi"},
      {&TestProgram::score, "score", "bhij", "gd"},
  };
  const std::string letters = "bhgijd";
  for (const Row& row : rows) {
    TestProgram program;
    for (char axis : row.allowed) {
      program.*row.stage = plus_index(Axis(letters.find(axis)));
      CHECK(complaint(program.build()) == "");
    }
    std::string axes;
    for (char axis : row.allowed) axes += (axes.empty() ? "" : ",") + std::string(1, axis);
    for (char axis : row.forbidden) {
      program.*row.stage = plus_index(Axis(letters.find(axis)));
      CHECK(complaint(program.build()) == "spec.attn:4:9: error[expression.axes]: index " +
                                              std::string(1, axis) + " cannot be used in a " + row.name +
                                              " expression, which may depend on {" + axes + "}");
    }
  }
}

TEST_CASE("a mask depends on positions and heads, a sink on heads and rows") {
  TestProgram program;
  program.mask = [](Graph& graph, NodeId) {
    return graph.apply(ScalarOp::ieq,
                       {graph.add(Index{Axis::d}, {}, at(5, 9)), graph.constant(0, ValueType::i32)});
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:5:9: error[expression.axes]: index d cannot be used in a mask expression, which may "
        "depend on "
        "{b,h,i,j}");
  program = {};
  program.sink = [](Graph& graph, NodeId) {
    return graph.apply(ScalarOp::to_f32, {graph.add(Index{Axis::j}, {}, at(6, 9))});
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:6:9: error[expression.axes]: index j cannot be used in a sink expression, which may "
        "depend on {b,h,i}");
}

TEST_CASE("a query value enters scores only through the product") {
  TestProgram program;
  program.score = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::add, {x, graph.add(Input{{0}}, {}, at(4, 9))});
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:4:9: error[expression.context]: tensor \"q\" cannot be used in a score expression");
}

TEST_CASE("a key expression reads the key") {
  TestProgram program;
  program.key = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::add, {x, graph.add(Input{{2}}, {}, at(4, 9))});
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:4:9: error[expression.context]: tensor \"v\" cannot be used in a key expression");
  program.key = [](Graph& graph, NodeId) {
    return graph.add(Apply{ScalarOp::to_f32}, {graph.index(Axis::d)}, at(4, 9));
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:4:9: error[expression.context]: the key expression does not use x");
}

TEST_CASE("a mask does not read the score") {
  TestProgram program;
  program.mask = [](Graph& graph, NodeId x) { return graph.apply(ScalarOp::gt, {x, graph.constant(0)}); };
  CHECK(complaint(program.build()) ==
        "spec.attn:1:11: error[expression.context]: the score cannot be used in a mask expression");
}

TEST_CASE("variables do not stand in programs, reductions only where there is a row") {
  TestProgram program;
  program.score = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::add, {x, graph.variable("alien", ValueType::f32)});
  };
  CHECK(complaint(program.build()) ==
        "spec.attn:1:11: error[expression.context]: variable \"alien\" cannot be used in a score expression");
  program = {};
  const auto times_sum = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::mul, {x, graph.add(Reduce{ReduceOp::sum}, {x}, at(2, 9))});
  };
  program.query = times_sum;
  CHECK(complaint(program.build()).empty());
  program.score = times_sum;
  CHECK(complaint(program.build()) ==
        "spec.attn:2:9: error[expression.context]: a reduction over d cannot be used in a score expression");
}

TEST_CASE("a score expression uses the score") {
  TestProgram program;
  program.score = [](Graph& graph, NodeId) { return graph.constant(0); };
  CHECK(complaint(program.build()) ==
        "spec.attn:1:11: error[program.structure]: the score expression does not use x\n"
        "  fix: scale x, or add to it");
}

TEST_CASE("outputs are o, once, and lse, at most once") {
  Graph graph = TestProgram{}.build();
  const NodeId attend = graph.operand(graph.output("o"), 0);
  const NodeId lse = graph.operand(graph.output("lse"), 0);
  Graph twice = graph;
  twice.add(Output{"o"}, {attend});
  CHECK(complaint(twice) ==
        "spec.attn:1:11: error[program.output]: output \"o\" is written 2 times; it must be once");
  twice = graph;
  twice.add(Output{"lse"}, {lse});
  CHECK(complaint(twice) ==
        "spec.attn:1:11: error[program.output]: output \"lse\" is written 2 times; it may be once");
  twice = graph;
  twice.add(Output{"weights"}, {attend}, at(7, 3));
  CHECK(complaint(twice) ==
        "spec.attn:7:3: error[program.output]: unknown output \"weights\"; outputs are \"o\", \"lse\", "
        "\"lse2\" and \"max_logit\"");
}

TEST_CASE("outputs are the attention result and its log-sum-exp") {
  Graph graph = TestProgram{}.build();
  const NodeId o = graph.operand(graph.output("o"), 0);
  Graph swapped = graph;
  swapped.add(Output{"lse"}, {o}, at(7, 3));
  CHECK(complaint(swapped) ==
        "spec.attn:7:3: error[program.structure]: output \"lse\" must be the log-sum-exp of the weights\n"
        "spec.attn:1:11: error[program.output]: output \"lse\" is written 2 times; it may be once");
}

TEST_CASE("a program multiplies queries by keys once") {
  Graph graph = TestProgram{}.build();
  const NodeId q = graph.add(Input{{0}});
  const NodeId second = graph.add(Scores{}, {q, graph.add(Input{{1}})});
  const NodeId weights = graph.add(Normalize{}, {second, graph.constant(1, ValueType::boolean)});
  graph.add(Output{"lse"}, {graph.add(LogSumExp{}, {weights})});
  const std::string said = complaint(graph);
  CHECK(said.find("error[program.structure]: the program has 2 score products; it needs at most one") !=
        std::string::npos);
  CHECK(said.find("error[program.structure]: the program has 2 normalizations; it needs exactly one") !=
        std::string::npos);
}

}  // namespace
}  // namespace attnfuse
