#include "passes/split_backward.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "frontend/expand.h"
#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/differentiate.h"

namespace attnfuse {
namespace {

// With the gradient of every captured float tensor wanted; none where that is refused.
std::optional<Graph> gradient(const std::string& text) {
  const auto specs = parse_spec(text);
  REQUIRE_MESSAGE(specs, render(specs.errors(), text));
  Spec spec = specs->at(0);
  for (Param& param : spec.params) param.grad = value_type(param.dtype) == ValueType::f32;
  const auto graph = expand(spec);
  REQUIRE_MESSAGE(graph, render(graph.errors(), text));
  const auto result = differentiate(*graph);
  const std::string code = result ? "" : result.errors()[0].code;
  if (code == "gradient.discrete" || code == "gradient.score-heads") return {};
  REQUIRE_MESSAGE(result, render(result.errors(), text));
  return *result;
}

bool may_read(const Graph& graph, BackwardPart part, BackwardPart from, NodeId operand) {
  if (part == BackwardPart::postprocess && from == BackwardPart::main) {
    const auto* contract = as<Contract>(graph.node(operand));
    return contract && contract->over == Axis::j;
  }
  return from <= part;
}

void check_split(const Graph& graph) {
  CAPTURE(print(graph));
  const BackwardSplit split = split_backward(graph);
  const auto part = [&](NodeId id) { return split.parts[id.value]; };
  for (NodeId id : cone(graph, graph.outputs())) {
    const Node& node = graph.node(id);
    CAPTURE(id.value);
    CAPTURE(name(part(id)));
    const bool is_product = as<Scores>(node) || as<Contract>(node);
    if (is_product) CHECK(part(id) == BackwardPart::main);
    if (part(id) == BackwardPart::preprocess || part(id) == BackwardPart::postprocess)
      CHECK_FALSE(node.axes.has(Axis::j));
    if (as<Output>(node)) continue;
    for (NodeId operand : graph.operands(id)) CHECK(may_read(graph, part(id), part(operand), operand));
  }
  for (NodeId row : split.rows) CHECK(graph.node(row).axes.within({Axis::b, Axis::h, Axis::i, Axis::d}));
  for (NodeId id : split.dq) CHECK(as<Contract>(graph.node(id)));
  for (const char* output : {"dk", "dv"}) CHECK(part(graph.output(output)) <= BackwardPart::main);
}

TEST_CASE("values of every example go from kernel to kernel as rows and as dQ alone") {
  int checked = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(ATTNFUSE_SOURCE_DIR "/frontend/examples")) {
    if (entry.path().extension() != ".attn") continue;
    CAPTURE(entry.path().string());
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    if (const auto graph = gradient(text.str())) {
      check_split(*graph);
      ++checked;
    }
  }
  CHECK(checked > 40);
}

TEST_CASE("a plain softmax: delta before, products in the middle, the rotation of queries after") {
  const Graph graph =
      *gradient("attention t { heads 4 kv_heads 2 head_dim 16 dtype f16 query rope key rope mask causal }");
  const BackwardSplit split = split_backward(graph);
  CHECK(split.rows.size() == 2);  // delta, and the log-sum-exp that is finite
  for (NodeId row : split.rows) CHECK(graph.node(row).axes == Axes{Axis::b, Axis::h, Axis::i});
  CHECK(split.dq.size() == 1);
  const auto part = [&](const char* output) { return split.parts[graph.output(output).value]; };
  CHECK(part("dq") == BackwardPart::postprocess);
  CHECK(part("dk") == BackwardPart::main);
  CHECK(part("dv") == BackwardPart::main);
}

TEST_CASE("gradients of a tensor that several kernels reach are summed by each") {
  const Graph graph = *gradient(
      "attention t { heads 4 head_dim 16 dtype f16 param t : f32 param s : f32[heads] query x * exp(t) key x "
      "* exp(t) "
      "score x + exp(t) normalize softmax(sink = s[h] * exp(t)) output x * exp(t) }");
  check_split(graph);
  std::vector<int> scatters(4);
  const BackwardSplit split = split_backward(graph);
  for (NodeId id : graph.operands(graph.output("dt"))) ++scatters[std::size_t(split.parts[id.value])];
  CHECK(scatters[std::size_t(BackwardPart::shared)] == 0);
  for (BackwardPart part : {BackwardPart::preprocess, BackwardPart::main, BackwardPart::postprocess})
    CHECK(scatters[std::size_t(part)] > 0);
}

}  // namespace
}  // namespace attnfuse
