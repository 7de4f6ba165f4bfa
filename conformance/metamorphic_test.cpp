// The relations hold for the reference itself, and notice when an output breaks them.
#include "conformance/metamorphic.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "frontend/parser.h"

namespace attnfuse::conformance {
namespace {

struct Called {
  Graph graph;
  Inputs inputs;
};

Called called(const std::string& line) {
  const auto c = parse_line(line);
  REQUIRE(c.ok());
  auto graph = parse_one(c->program);
  REQUIRE(graph.ok());
  Inputs inputs = make_inputs(*graph, *c);
  return {std::move(graph).value(), std::move(inputs)};
}

OutputValues outputs(const Graph& graph, const Inputs& inputs) {
  const auto exact = reference(graph, inputs.tensors, Rounding::none);
  REQUIRE_MESSAGE(exact.ok(), render(exact.errors()));
  return {exact->o, exact->lse, {}};
}

bool is_close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t n = 0; n < a.size(); ++n)
    if (a[n] != b[n] && !(std::abs(a[n] - b[n]) < 1e-9)) return false;
  return true;
}

const char* const kKept =
    "merged b=2 sq=7 skv=23 layout=mixed :: attention t { heads 4 kv_heads 2 head_dim 16 dtype f16 param "
    "keep : "
    "bool[batch, skv] mask keep[b, j] && i != 3 }";

}  // namespace

TEST_CASE("outputs over two parts of the keys add up to those over all, empty rows included") {
  const Called call = called(kKept);
  const OutputValues all = outputs(call.graph, call.inputs);
  for (std::int64_t middle : {0, 1, 9, 23}) {
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return outputs(call.graph, part_of(call.graph, call.inputs, Size::skv, first, count));
    };
    const OutputValues joined = merged(part(0, middle), part(middle, 23 - middle), 16);
    CHECK(is_close(joined.o, all.o));
    CHECK(is_close(joined.lse, all.lse));
    CHECK(joined.lse[3] == -std::numeric_limits<double>::infinity());
  }
}

TEST_CASE("keys in reverse change nothing, and neither does a constant added to all scores") {
  const Called call = called(kKept);
  const OutputValues all = outputs(call.graph, call.inputs);
  const Inputs reversed = part_of(call.graph, call.inputs, Size::skv, 0, 23, true);
  CHECK(is_close(outputs(call.graph, reversed).o, all.o));
  const std::int64_t first[] = {0, 0, 0, 2}, last[] = {0, 0, 22, 2};
  CHECK(reversed.tensors.at("k").get(first) == call.inputs.tensors.at("k").get(last));

  const Called moved =
      called("moved b=2 sq=7 skv=23 layout=mixed :: " + with_shifted_scores(parse_line(kKept)->program, 5));
  OutputValues shifted = outputs(moved.graph, call.inputs);
  for (double& lse : shifted.lse) lse -= 5;
  CHECK(is_close(shifted.o, all.o));
  CHECK(is_close(shifted.lse, all.lse));
}

TEST_CASE("batch entries alone are those of the batch") {
  const Called call = called(kKept);
  const OutputValues all = outputs(call.graph, call.inputs);
  OutputValues joined;
  for (std::int64_t b = 0; b < 2; ++b) {
    const OutputValues one = outputs(call.graph, part_of(call.graph, call.inputs, Size::batch, b, 1));
    joined.o.insert(joined.o.end(), one.o.begin(), one.o.end());
  }
  CHECK(is_close(joined.o, all.o));
}

}  // namespace attnfuse::conformance
