// Output expressions in tile programs: the order of what happens to rows after the second product.
#include <doctest/doctest.h>

#include <algorithm>

#include "frontend/parser.h"
#include "passes/passes.h"
#include "passes/pipelined_tiles.h"

namespace attnfuse {
namespace {

Graph program(const std::string& lines, int head_dim = 64) {
  const auto graph = parse_one("attention t { heads 4 kv_heads 2 head_dim " + std::to_string(head_dim) +
                               " dtype f16 " + lines + " }");
  REQUIRE_MESSAGE(graph, render(graph.errors()));
  return *graph;
}

// Four lanes to a row of scores, fused multiply-adds only.
Target small_target() {
  Target target;
  target.name = target.title = "test";
  target.units = {MatrixUnit{"fma", {DType::f16, DType::bf16, DType::f32}}};
  return target;
}

// Where the first line that starts with `text` stands in the printed tile program; -1: nowhere.
std::ptrdiff_t line_of(const std::string& printed, const std::string& text) {
  std::size_t begin = 0;
  for (std::ptrdiff_t line = 0; begin < printed.size(); ++line) {
    const std::size_t end = std::min(printed.find('\n', begin), printed.size());
    const std::size_t first = std::min(printed.find_first_not_of(' ', begin), end);
    if (printed.compare(first, text.size(), text) == 0) return line;
    begin = end + 1;
  }
  return -1;
}

std::string printed(const Graph& graph) {
  const auto tiles = compile_to_tiles(graph, small_target());
  REQUIRE_MESSAGE(tiles, render(tiles.errors()));
  return print(*tiles);
}

TEST_CASE("values are restored to the rows before the output expression, which is before the store") {
  const std::string text = printed(program("mask causal output norm output x * 2"));
  const auto restored = line_of(text, "restore non-finite values of v into o if"),
             reduced = line_of(text, "reduce o_over_d0 = sum of "), stored = line_of(text, "store o <- o ");
  CHECK(restored >= 0);
  CHECK(reduced > restored);
  CHECK(stored > reduced);
  // Rows are brought to one size by one factor each.
  CHECK(line_of(text, "map output_i_") > reduced);
}

TEST_CASE("without an output expression values are restored in memory, after the store") {
  const std::string text = printed(program("mask causal"));
  CHECK(line_of(text, "restore non-finite values of v into o if") > line_of(text, "store o <- o "));
  CHECK(line_of(text, "map o =") == -1);
}

TEST_CASE("pairs that one thread holds stay in registers, others pass through the output") {
  // A lane holds every fourth column.
  CHECK(line_of(printed(program("output inverse_rope")), "pair o_pair_0 = partner half 64 of o") >= 0);
  CHECK(line_of(printed(program("output inverse_rope(dims = 12)")),
                "pair o_pair_0 = partner half 12 of o from o") >= 0);
}

TEST_CASE("sums and pairs of queries and keys are none of the output's") {
  const std::string text =
      printed(program("query norm query rope key norm key rope mask causal output x * 2"));
  CHECK(line_of(text, "map o =") >= 0);
  CHECK(line_of(text, "pair ") == -1);
  CHECK(line_of(text, "reduce o_") == -1);
}

TEST_CASE("weights are multiplied after they are summed") {
  const std::string text = printed(program("weights x * select(i == j, 0.5, 1.0)"));
  const auto summed = line_of(text, "reduce row_sum = sum onto itself of s"),
             weighed = line_of(text, "map s = s * ");
  CHECK(summed >= 0);
  CHECK(std::max(weighed, line_of(text, "map p = s * ")) > summed);
}

TEST_CASE("the largest score is an output with three strides") {
  const auto tiles = compile_to_tiles(program("score scale(0.125) output max_logit"), small_target());
  REQUIRE(tiles);
  const auto is_field = [](const ParamField& field) { return field.tensor == "max_logit"; };
  CHECK(std::ranges::count_if(tiles->params, is_field) == 4);
  REQUIRE(tiles->outputs.size() == 3);
  CHECK(tiles->outputs[2].name == "max_logit");
  CHECK(line_of(print(*tiles), "store max_logit <- row_max ") >= 0);
}

TEST_CASE("roles refuse pairs that several threads hold, and say so") {
  Target target = small_target();
  target.pipeline.emplace();
  MatrixUnit& unit = target.pipeline->product;
  unit.m = 64;
  unit.n = 8;
  unit.k = 16;
  unit.accumulator = {{{2, TileAxis::col, 1}, {2, TileAxis::row, 8}},
                      {{4, TileAxis::col, 2}, {8, TileAxis::row, 1}},
                      {{4, TileAxis::row, 16}}};
  const auto refusal = [&](const std::string& lines) {
    const auto optimized = run_graph_passes(program(lines));
    REQUIRE(optimized);
    return pipeline_refusal(*optimized, target);
  };
  CHECK(refusal("output inverse_rope").empty());
  CHECK(refusal("output inverse_rope(pairs = interleaved, dims = 16)").empty());
  CHECK(refusal("query rope(dims = 12) output norm").empty());
  CHECK(refusal("output inverse_rope(dims = 12)") ==
        "the output pairs 12 elements, which several threads hold");
}

}  // namespace
}  // namespace attnfuse
