// A second score head on the same values.
#include "frontend/blocks/block_test.h"
#include "ir/score_heads.h"

namespace attnfuse {
namespace {

TEST_CASE("differential takes lambda times the second head's result from the first's") {
  StageValues number("output differential(0.25)");
  number.row[3] = 2;
  number.second_result[3] = 5;
  CHECK(number.output({.h = 1, .d = 3}) == 2 - 0.25 * 5);
  StageValues by_head("param l : f32[heads]; output differential(l)");
  by_head.tensors["l"] = {0, 0, 0, -2};
  by_head.row[1] = 7;
  by_head.second_result[1] = 3;
  CHECK(by_head.output({.h = 3, .d = 1}) == 7 + 2 * 3);
  CHECK(by_head.output({.h = 2, .d = 1}) == 7);
  StageValues computed("param l : f32[batch, heads]; output differential(1 + l[b, h] * h)");
  computed.tensors["l"] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.5};
  computed.second_result[0] = 4;
  CHECK(computed.output({.b = 1, .h = 2, .batch = 2}) == -8);
}

TEST_CASE("output lines after differential act on the difference") {
  StageValues values("output differential(1); output scale(3); output x + 1");
  values.row[2] = 9;
  values.second_result[2] = 4;
  CHECK(values.output({.d = 2}) == 16);
}

TEST_CASE("the second head has the first's lines, on tensors of its own") {
  const StageValues values(
      "param bias : f32[heads, skv]; query rope; key norm; value x * 2; score softcap(5); score x + bias[h, "
      "j]; "
      "mask causal; weights x * (1 + i); output differential(0.5)");
  const Graph& graph = values.graph();
  const std::vector<ScoreHead> heads = score_heads(graph);
  REQUIRE(heads.size() == 2);
  const auto tensor = [&](TensorId id) { return graph.tensor(id).name; };
  CHECK(tensor(heads[0].query) == "q");
  CHECK(tensor(heads[0].key) == "k");
  CHECK(tensor(heads[1].query) == "q2");
  CHECK(tensor(heads[1].key) == "k2");
  CHECK(graph.tensor(heads[1].query).shape == graph.tensor(heads[0].query).shape);
  CHECK(graph.tensor(heads[1].key).shape == graph.tensor(heads[0].key).shape);
  const auto same = [&](NodeId ScoreHead::* node, int operand) {
    return latex(graph, graph.operand(heads[0].*node, operand)) ==
           latex(graph, graph.operand(heads[1].*node, operand));
  };
  CHECK(same(&ScoreHead::normalize, 0));
  CHECK_FALSE(same(&ScoreHead::scores, 0));  // they name their inputs
  CHECK(graph.operand(heads[0].normalize, 1) == graph.operand(heads[1].normalize, 1));
  CHECK(graph.operand(heads[0].attend, 1) == graph.operand(heads[1].attend, 1));
  const auto lse_of = [&](const char* name) {
    return graph.operand(graph.operand(graph.output(name), 0), 0);
  };
  CHECK(lse_of("lse") == heads[0].normalize);
  CHECK(lse_of("lse2") == heads[1].normalize);
}

}  // namespace
}  // namespace attnfuse
