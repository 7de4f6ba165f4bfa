#include <doctest/doctest.h>

#include <fmt/format.h>

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

// Two score heads; the fields are what the second one reads and what is made of both.
struct Differential {
  int score_heads = 2;
  std::uint32_t query = 3, key = 4;  // tensors in order: q, k, v, q2, k2
  NormalizeKind kind = NormalizeKind::softmax;
  bool is_masked = false;
  bool has_scores = true;
  bool swaps_statistics = false;

  Graph build() const {
    TestProgram program;
    program.info.score_heads = score_heads;
    Graph graph(program.info);
    for (const char* name : {"q", "k", "v", "q2", "k2"}) {
      const TensorRole role = name[0] == 'q'   ? TensorRole::query
                              : name[0] == 'k' ? TensorRole::key
                                               : TensorRole::value;
      const bool is_query = role == TensorRole::query;
      graph.add_tensor({name,
                        program.info.dtype,
                        role,
                        {{Size::batch},
                         {is_query ? Size::heads : Size::kv_heads},
                         {is_query ? Size::sq : Size::skv},
                         {role == TensorRole::value ? Size::v_head_dim : Size::head_dim}},
                        {},
                        {},
                        {}});
    }
    const NodeId value = graph.add(Input{{2}}), all = graph.constant(1, ValueType::boolean);
    const NodeId causal = graph.apply(ScalarOp::ige, {graph.index(Axis::i), graph.index(Axis::j)});
    const NodeId scores = graph.add(Scores{}, {graph.add(Input{{0}}), graph.add(Input{{1}})});
    const NodeId others =
        graph.add(Scores{}, {graph.add(Input{{query}}, {}, at(3, 1)), graph.add(Input{{key}}, {}, at(3, 5))});
    const NodeId weights = graph.add(Normalize{}, {scores, all});
    const NodeId other = graph.add(Normalize{kind}, {has_scores ? others : scores, is_masked ? causal : all});
    const NodeId first = graph.add(Attend{}, {weights, value});
    const NodeId second = graph.add(Attend{}, {other, value}, at(5, 1));
    graph.add(Output{"o"}, {graph.apply(ScalarOp::sub, {first, second})});
    const auto statistics = [&](const char* name, NodeId of) {
      graph.add(Output{name}, {graph.add(LogSumExp{}, {of})}, at(7, 1));
    };
    statistics("lse", swaps_statistics ? other : weights);
    statistics("lse2", swaps_statistics ? weights : other);
    return graph;
  }
};

TEST_CASE("two score heads have queries and keys of their own, and all else in common") {
  CHECK(complaint(Differential{}.build()).empty());
  const auto structure = [](const char* place, const std::string& said) {
    return fmt::format("spec.attn:{}: error[program.structure]: {}", place, said);
  };
  CHECK(complaint(Differential{.is_masked = true}.build()) ==
        structure("1:11", "both score heads need the same mask, normalization and values"));
  CHECK(complaint(Differential{.kind = NormalizeKind::retention}.build()) ==
        structure("1:11", "both score heads need the same mask, normalization and values"));
  CHECK(complaint(Differential{.query = 0}.build()) == structure("3:1", "\"q\" is read by both score heads"));
  CHECK(complaint(Differential{.key = 1}.build()) == structure("3:5", "\"k\" is read by both score heads"));
  CHECK(complaint(Differential{.has_scores = false}.build()) ==
        structure("1:11", "the program has 1 score products; it needs exactly two"));
}

TEST_CASE("the outputs lse and lse2 are those of the first and of the second score head") {
  CHECK(complaint(Differential{.swaps_statistics = true}.build()) ==
        "spec.attn:7:1: error[program.output]: output \"lse\" must be that of the first score head\n"
        "spec.attn:7:1: error[program.output]: output \"lse2\" must be that of the second score head");
  Graph one = TestProgram{}.build();
  one.add(Output{"lse2"}, {one.operand(one.output("lse"), 0)}, at(7, 1));
  CHECK(complaint(one) ==
        "spec.attn:7:1: error[program.output]: output \"lse2\" must be that of the second score head");
}

TEST_CASE("score heads are one or two, and there are as many queries and keys") {
  CHECK(complaint(Differential{.score_heads = 3}.build())
            .find("error[program.score-heads]: score_heads is 3; it is 1 or 2") != std::string::npos);
  const std::string said = complaint(Differential{.score_heads = 1}.build());
  CHECK(said.find("error[program.input]: the program has 2 query tensors; it needs exactly one") !=
        std::string::npos);
}

}  // namespace
}  // namespace attnfuse
