// The whole pipeline on the language's examples: every stage means the same before and after.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/score_heads.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

struct Point {
  std::int64_t b, h, g, i, j, d, sq, skv;
};

// A number that looks random, in [-1, 1].
double noise(std::int64_t seed) {
  return std::sin(double(seed) * 12.9898) * std::cos(double(seed) * 78.233 + 1);
}

std::int64_t partner_of(const Partner& partner, std::int64_t d) {
  if (d >= partner.count) return d;
  const std::int64_t half = partner.count / 2;
  if (partner.pairs == RotaryPairs::interleaved) return d % 2 == 0 ? d + 1 : d - 1;
  return d < half ? d + half : d - half;
}

// Sums over d, which are the same at every d of a row.
using RowSums = std::map<NodeId, double>;

// Any stage's value: inputs, scores and captured elements are noise, pairs read the input at their partner.
double value_at(const Graph& graph, NodeId root, const Point& at, RowSums& sums) {
  EvaluateContext context;
  const std::int64_t indices[] = {at.b, at.h, at.g, at.i, at.j, at.d};
  std::ranges::copy(indices, context.index);
  context.sizes[std::size_t(Size::batch)] = 3;
  context.sizes[std::size_t(Size::sq)] = at.sq;
  context.sizes[std::size_t(Size::skv)] = at.skv;
  context.element = [&](TensorId tensor, std::span<const std::int64_t> index) -> double {
    std::int64_t seed = tensor.value;
    for (std::int64_t k : index) seed = seed * 31 + k;
    const double value = noise(seed);
    switch (value_type(graph.tensor(tensor).dtype)) {
      case ValueType::f32:
        return value;
      case ValueType::i32:
        return std::floor(value * 20);
      case ValueType::boolean:
        return value > 0;
    }
    return 0;
  };
  context.leaf = [&](NodeId id) {
    const auto* partner = as<Partner>(graph.node(id));
    if (as<Reduce>(graph.node(id))) {
      if (const auto found = sums.find(id); found != sums.end()) return found->second;
      double sum = 0;
      Point other = at;
      for (other.d = 0; other.d < graph.info().head_dim; ++other.d)
        sum += value_at(graph, graph.operand(id, 0), other, sums);
      return sums[id] = sum;
    }
    if (!partner) return 3 * noise(at.i * 7 + at.j * 11 + at.d * 13 + at.h);
    Point other = at;
    other.d = partner_of(*partner, at.d);
    return value_at(graph, graph.operand(id, 0), other, sums);
  };
  return evaluate(graph, root, context);
}

struct StageRoot {
  std::string name;
  NodeId root;
};

std::vector<StageRoot> stages(const Graph& graph) {
  std::vector<StageRoot> result;
  for (const ScoreHead& head : score_heads(graph)) {
    result.push_back({"query", graph.operand(head.scores, 0)});
    result.push_back({"key", graph.operand(head.scores, 1)});
    result.push_back({"value", graph.operand(head.attend, 1)});
    result.push_back({"score", graph.operand(head.normalize, 0)});
    result.push_back({"mask", graph.operand(head.normalize, 1)});
    if (graph.operands(head.normalize).size() == 3)
      result.push_back({"sink", graph.operand(head.normalize, 2)});
  }
  return result;
}

std::vector<std::string> example_files() {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(ATTNFUSE_SOURCE_DIR "/frontend/examples"))
    if (entry.path().extension() == ".attn") files.push_back(entry.path().string());
  return files;
}

Graph parsed(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  const Result<Graph> graph = parse_one(text.str(), file);
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors()));
  return *graph;
}

bool reads_captured(const Graph& graph, NodeId root) {
  for (NodeId id : cone(graph, {root}))
    if (const auto* gather = as<Gather>(graph.node(id)))
      if (graph.tensor(gather->tensor).role == TensorRole::captured) return true;
  return false;
}

}  // namespace

TEST_CASE("The passes keep the values of every stage of every example") {
  const std::vector<std::string> files = example_files();
  REQUIRE(files.size() >= 5);
  for (const std::string& file : files) {
    CAPTURE(file);
    const Graph before = parsed(file);
    const Result<Graph> after = run_graph_passes(before);
    REQUIRE_MESSAGE(after.ok(), render(after.errors()));
    const std::vector<StageRoot> wanted = stages(before), got = stages(*after);
    REQUIRE(got.size() == wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      CAPTURE(wanted[k].name);
      // Sums over d take long.
      const std::int64_t points = reduces(before, wanted[k].root) ? 4 : 60;
      for (std::int64_t n = 0; n < points; ++n) {
        const ProgramInfo& info = before.info();
        const Point at{n % 3,      n % info.heads,        n % info.kv_heads, n * 3,
                       n * 5 % 64, n * 7 % info.head_dim, 180 + n,           300};
        CAPTURE(n);
        RowSums sums_before, sums_after;
        const double value = value_at(before, wanted[k].root, at, sums_before);
        CHECK(value_at(*after, got[k].root, at, sums_after) == doctest::Approx(value).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("After the passes, examples compute nothing along d that a table could hold") {
  for (const std::string& file : example_files()) {
    CAPTURE(file);
    const Graph graph = run_graph_passes(parsed(file)).value();
    for (NodeId id : cone(graph, graph.outputs())) {
      const Node& node = graph.node(id);
      const auto* apply = as<Apply>(node);
      if (node.axes != Axes{Axis::d} || !apply || reads_captured(graph, id)) continue;
      CAPTURE(print(graph));
      CHECK((apply->op != ScalarOp::exp2 && apply->op != ScalarOp::exp && apply->op != ScalarOp::div));
    }
  }
}

}  // namespace attnfuse
