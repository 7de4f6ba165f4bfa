#include <doctest/doctest.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/test_program.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

constexpr int kDim = 64;

// The partner of d, written as the definition says.
int partner_of(Partner partner, int d) {
  if (d >= partner.count) return d;
  if (partner.pairs == RotaryPairs::interleaved) return d % 2 == 0 ? d + 1 : d - 1;
  return d < partner.count / 2 ? d + partner.count / 2 : d - partner.count / 2;
}

double input_at(int d) { return 0.5 * d * d - 3 * d + 1; }

// Evaluates any value of a query stage, pairs included.
double value_at(const Graph& graph, NodeId id, int d) {
  const Node& node = graph.node(id);
  if (as<Input>(node)) return input_at(d);
  if (const auto* partner = as<Partner>(node))
    return value_at(graph, graph.operand(id, 0), partner_of(*partner, d));
  if (const auto* constant = as<Constant>(node)) return constant->value;
  if (as<Index>(node)) return d;
  if (const auto* gather = as<Gather>(node))
    return graph.tensor(gather->tensor).values.at(std::size_t(value_at(graph, graph.operand(id, 0), d)));
  std::vector<double> x;
  for (NodeId operand : graph.operands(id)) x.push_back(value_at(graph, operand, d));
  return info(as<Apply>(node)->op).value(x);
}

NodeId query_of(const Graph& graph) { return graph.operand(find<Scores>(graph), 0); }

bool pairs_only_inputs(const Graph& graph) {
  for (NodeId id : cone(graph, graph.outputs()))
    if (as<Partner>(graph.node(id)) && !as<Input>(graph.node(graph.operand(id, 0)))) return false;
  return true;
}

// x * f(d) + partner(x * d) * g(d), which needs every rule.
NodeId rotated(Graph& g, NodeId x, Partner partner) {
  const NodeId d = g.apply(Op::to_f32, {g.index(Axis::d)});
  const NodeId weighted = g.apply(Op::mul, {x, g.apply(Op::add, {d, g.constant(2)})});
  const NodeId f = g.apply(Op::cos, {d});
  return g.apply(Op::add, {g.apply(Op::mul, {x, f}), g.apply(Op::mul, {g.add(partner, {weighted}), d})});
}

void check_same_values(const Graph& before, const Graph& after) {
  for (int d = 0; d < kDim; ++d) {
    CAPTURE(d);
    CHECK(value_at(after, query_of(after), d) == doctest::Approx(value_at(before, query_of(before), d)));
  }
}

}  // namespace

TEST_CASE("Pairs of expressions become expressions of paired inputs") {
  for (Partner partner : {Partner{RotaryPairs::half, 64}, Partner{RotaryPairs::half, 32},
                          Partner{RotaryPairs::interleaved, 64}, Partner{RotaryPairs::interleaved, 16}}) {
    CAPTURE(partner.count);
    TestProgram program;
    program.query = [&](Graph& g, NodeId x) { return rotated(g, rotated(g, x, partner), partner); };
    const Graph before = program.build();
    const Graph after = expand_partner(before).value();
    CHECK(pairs_only_inputs(after));
    check_same_values(before, after);
    const Graph tables = tabulate(after).value();
    CHECK(pairs_only_inputs(tables));
    check_same_values(before, tables);
  }
}

TEST_CASE("The partner of the partner is the value itself") {
  TestProgram program;
  const Partner partner{RotaryPairs::half, 64};
  program.query = [&](Graph& g, NodeId x) { return g.add(partner, {g.add(partner, {x})}); };
  const Graph graph = expand_partner(program.build()).value();
  CHECK(as<Input>(graph.node(query_of(graph))));
}

TEST_CASE("Pairing already paired elements in another way is reported") {
  TestProgram program;
  program.query = [&](Graph& g, NodeId x) {
    const NodeId inner = g.add(Partner{RotaryPairs::half, 32}, {x});
    return g.add(Partner{RotaryPairs::interleaved, 64}, {inner}, at(4, 9, 4));
  };
  const Result<Graph> result = expand_partner(program.build());
  REQUIRE(!result.ok());
  CHECK(render(result.errors()) ==
        "spec.attn:4:9: error[pass.partner-nesting]: interleaved pairs of 64 elements of half pairs of 32 "
        "elements "
        "would read elements that no thread loads together\n"
        "  fix: use the same pairs and count in every rope of a stage");
}

}  // namespace attnfuse
