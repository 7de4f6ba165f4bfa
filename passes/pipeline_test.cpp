#include <doctest/doctest.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/test_program.h"
#include "passes/passes.h"

namespace attnfuse {

TEST_CASE("Every pass is observed once, in order, with the text of a legal graph") {
  std::vector<std::string> stages;
  std::string last;
  const Graph graph = run_graph_passes(TestProgram{}.build(), [&](std::string_view stage,
                                                                  const std::string& text, double seconds) {
                        CHECK(seconds >= 0);
                        stages.emplace_back(stage);
                        last = text;
                      }).value();
  std::vector<std::string> names;
  for (const GraphPass& pass : graph_passes()) names.emplace_back(pass.name);
  CHECK(stages == names);
  CHECK(last == print(graph));
  CHECK(verify(graph).empty());
}

TEST_CASE("A graph that breaks a rule is refused before the first pass") {
  TestProgram program;
  program.mask = [](Graph& g, NodeId) { return g.constant(1); };
  bool observed = false;
  const auto observe = [&](std::string_view, const std::string&, double) { observed = true; };
  CHECK(!run_graph_passes(program.build(), observe).ok());
  CHECK(!observed);
}

TEST_CASE("A score that folds to something without x is reported, not lowered") {
  TestProgram program;
  program.score = [](Graph& g, NodeId x) {
    const NodeId always = g.apply(ScalarOp::ige, {g.add(SizeOf{Size::heads}), g.constant(1, ValueType::i32)});
    return g.apply(ScalarOp::select, {always, g.constant(0), x});
  };
  const Result<Graph> result = run_graph_passes(program.build());
  REQUIRE(!result.ok());
  CHECK(result.errors()[0].message == "the score expression does not use x (after simplify)");
}

TEST_CASE("Unused captured tensors stay in the program's interface") {
  TestProgram program;
  program.captured = {{"unused", DType::f32, TensorRole::captured, {{Size::heads}}, false, {}, {}}};
  CHECK(run_graph_passes(program.build()).value().find_tensor("unused").valid());
}

}  // namespace attnfuse
