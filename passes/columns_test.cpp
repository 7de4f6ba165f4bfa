#include "passes/columns.h"

#include <doctest/doctest.h>

#include <cmath>

#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/random_expression.h"
#include "passes/transform.h"

namespace attnfuse {
namespace {

constexpr int kColumns = 16;

double element(std::int64_t d) { return std::sin(double(d) * 12.9898 + 1) * 2; }

int partner_of(const Partner& partner, int d) {
  if (d >= partner.count) return d;
  if (partner.pairs == RotaryPairs::interleaved) return d ^ 1;
  return d < partner.count / 2 ? d + partner.count / 2 : d - partner.count / 2;
}

// One row of the source: what an expression gives at column d, by its definition.
class Row {
 public:
  explicit Row(const Graph& graph) : graph_(graph) {
    context_.index[std::size_t(Axis::i)] = 5;
    context_.index[std::size_t(Axis::j)] = 5;
    context_.index[std::size_t(Axis::h)] = 1;
    context_.sizes[std::size_t(Size::sq)] = 7;
    context_.sizes[std::size_t(Size::skv)] = 9;
    context_.element = [this](TensorId tensor, std::span<const std::int64_t> index) {
      const TensorInfo& info = graph_.tensor(tensor);
      return info.values.empty() ? element(index.back() + 50) : info.values.at(std::size_t(index[0]));
    };
  }

  double value(NodeId root, int d, const std::map<std::string, double>& variables = {}) {
    context_.index[std::size_t(Axis::d)] = d;
    context_.leaf = [&](NodeId id) {
      const Node& node = graph_.node(id);
      if (const auto* variable = as<Variable>(node)) return variables.at(variable->name);
      const auto* partner = as<Partner>(node);
      return element(partner ? partner_of(*partner, d) : d);
    };
    return evaluate(graph_, root, context_);
  }

  // The same through groups: both elements of a pair from the values at d.
  std::vector<double> columns(const std::vector<ColumnGroup>& groups) {
    std::vector<double> result(kColumns, std::nan(""));
    for (const ColumnGroup& group : groups)
      for (int d = group.begin; d < group.end; d += group.partner == 1 ? 2 : 1) {
        std::map<std::string, double> variables{{"x", element(d)}, {"y", element(d + group.partner)}};
        for (const Let& let : group.shared) variables[let.name] = value(let.value, d);
        result.at(std::size_t(d)) = value(group.first, d, variables);
        if (group.partner > 0) result.at(std::size_t(d + group.partner)) = value(group.second, d, variables);
      }
    return result;
  }

 private:
  const Graph& graph_;
  EvaluateContext context_;
};

void check_groups(Graph& graph, NodeId transform) {
  const auto groups = column_groups(graph, transform, kColumns);
  Row row(graph);
  const auto got = row.columns(groups);
  for (int d = 0; d < kColumns; ++d) {
    INFO("d ", d, ": ", expression_text(graph, transform));
    CHECK(got[std::size_t(d)] == doctest::Approx(row.value(transform, d)).epsilon(1e-6));
  }
}

Graph passed(const std::string& body) {
  auto graph = parse_one("attention t { heads 4 kv_heads 2 head_dim 16 dtype f16 " + body + " }");
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors()));
  auto result = run_graph_passes(*graph);
  REQUIRE(result.ok());
  return std::move(result).value();
}

int count_of(const Graph& graph, const std::vector<ColumnGroup>& groups, ScalarOp op) {
  std::vector<NodeId> roots;
  for (const ColumnGroup& group : groups) {
    roots.push_back(group.first);
    if (group.second.valid()) roots.push_back(group.second);
    for (const Let& let : group.shared) roots.push_back(let.value);
  }
  int count = 0;
  for (NodeId id : cone(graph, roots))
    if (const auto* apply = as<Apply>(graph.node(id))) count += apply->op == op;
  return count;
}

}  // namespace

TEST_CASE("columns in groups have the values of the expression") {
  for (const char* body :
       {"query rope(theta = 10000)", "query rope(theta = 10000, pairs = interleaved)",
        "query rope(theta = 10000, dims = 8)", "query x * 0.5",
        "query rope(theta = 10000, dims = 8, pairs = interleaved)",
        "query rope(theta = 10000) query rope(theta = 77)", "query x * (1 + 0.01 * i) + d",
        "query x * 0.5 query rope(theta = 10000) query x + 0.25 * h",
        "param gain : f32[head_dim] query x * gain[d] query rope(theta = 100, dims = 12)"}) {
    Graph graph = passed(body);
    check_groups(graph, transform_of(graph, TensorRole::query));
  }
}

TEST_CASE("a rotation computes one angle, one sine and one cosine for a pair") {
  for (const char* pairs : {"half", "interleaved"}) {
    Graph graph = passed(std::string("key rope(theta = 10000, pairs = ") + pairs + ")");
    const auto groups = column_groups(graph, transform_of(graph, TensorRole::key), kColumns);
    REQUIRE(groups.size() == 1);
    CHECK(count_of(graph, groups, ScalarOp::cos) == 1);
    CHECK(count_of(graph, groups, ScalarOp::sin) == 1);
    CHECK(groups[0].shared.size() == 2);
  }
}

TEST_CASE("columns that do not turn are copied, without the rotation's code") {
  Graph graph = passed("key rope(theta = 10000, dims = 8)");
  const auto groups = column_groups(graph, transform_of(graph, TensorRole::key), kColumns);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].begin == 8);
  CHECK(groups[1].end == 16);
  CHECK(groups[1].shared.empty());
  const auto* copied = as<Variable>(graph.node(groups[1].first));
  REQUIRE(copied);
  CHECK(copied->name == "x");
}

TEST_CASE("what depends on the head stays with the head") {
  Graph graph = passed("param gain : f32[heads] query x * gain[h] * (1 + i)");
  for (const ColumnGroup& group : column_groups(graph, transform_of(graph, TensorRole::query), kColumns))
    for (const Let& let : group.shared) CHECK(!graph.node(let.value).axes.has(Axis::h));
}

TEST_CASE("two kinds of pairs in one expression are read one by one") {
  Graph graph = passed("query x * 0.5");
  const NodeId x = find<Input>(graph);
  const NodeId half = graph.add(Partner{RotaryPairs::half, 16}, {x});
  const NodeId neighbour = graph.add(Partner{RotaryPairs::interleaved, 16}, {x});
  check_groups(graph, graph.apply(ScalarOp::add, {graph.apply(ScalarOp::mul, {x, half}), neighbour}));
}

TEST_CASE("random expressions of an element and its partner keep their values in groups") {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    INFO("seed ", seed);
    Graph graph = passed("query x * 0.5");
    RandomExpression random(graph, seed);
    const NodeId x = find<Input>(graph);
    const int counts[] = {16, 8, 4};
    const Partner partner{random.chance(50) ? RotaryPairs::half : RotaryPairs::interleaved, counts[seed % 3]};
    std::vector<double> odd, table;
    for (int d = 0; d < kColumns; ++d) {
      odd.push_back(partner_of(partner, d) > d ? -1.5 * (d % 4) : 1.5 * (partner_of(partner, d) % 4));
      table.push_back(double(random.below(9)) - 4);
    }
    const NodeId d = graph.index(Axis::d);
    const auto read = [&](const char* name, const std::vector<double>& values) {
      const TensorId id = graph.add_tensor(
          {name, DType::f32, TensorRole::constant, {{std::int64_t(kColumns)}}, false, values, {}});
      return graph.add(Gather{id}, {d});
    };
    random.f32_leaves = {x, graph.add(partner, {x}), read("odd", odd), read("table", table)};
    random.i32_leaves = {d, graph.index(Axis::i), graph.index(Axis::h), graph.add(SizeOf{Size::sq})};
    check_groups(graph, random.f32(5));
  }
}

}  // namespace attnfuse
