// Values of gradient graphs are judged in conformance/gradient_test.cpp, beside the reference.
#include "passes/differentiate.h"

#include <doctest/doctest.h>

#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/gradient.h"

namespace attnfuse {
namespace {

Graph program(const std::string& lines) {
  const std::string text =
      "attention t { heads 4 kv_heads 2 head_dim 16 v_head_dim 32 dtype f16 " + lines + " }";
  const Result<Graph> graph = parse_one(text);
  REQUIRE_MESSAGE(graph, render(graph.errors(), text));
  return *graph;
}

Graph gradient(const std::string& lines) {
  const Result<Graph> graph = differentiate(program(lines));
  REQUIRE_MESSAGE(graph, render(graph.errors()));
  return *graph;
}

std::string complaint(const std::string& lines) {
  const Result<Graph> graph = differentiate(program(lines));
  return graph ? "" : render(graph.errors());
}

template <class Kind>
int count(const Graph& graph) {
  int found = 0;
  for (NodeId id : cone(graph, graph.outputs())) found += as<Kind>(graph.node(id)) ? 1 : 0;
  return found;
}

std::vector<std::string> rows(const Graph& graph) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role == TensorRole::saved || tensor.role == TensorRole::upstream) names.push_back(tensor.name);
  return names;
}

// Whether some value has i and j but is smaller than the score tile that it comes from.
bool sums_to_pairs(const Graph& graph) {
  for (NodeId id : cone(graph, graph.outputs()))
    if (as<SumOver>(graph.node(id)) && graph.node(id).axes.has(Axis::i) && graph.node(id).axes.has(Axis::j))
      return true;
  return false;
}

TEST_CASE("a softmax's gradients take five products, and read what the forward pass saves") {
  const Graph graph = gradient("score scale(0.25) mask causal");
  CHECK(is_gradient(graph));
  CHECK(count<Scores>(graph) == 2);
  CHECK(count<Contract>(graph) == 3);
  CHECK(rows(graph) == std::vector<std::string>{"o", "lse", "dlse", "do"});
  CHECK(graph.output("dq").valid());
  CHECK(print(graph).find("saved o : f16 [batch, heads, sq, v_head_dim]\n") != std::string::npos);
}

TEST_CASE("what else the forward pass must save follows from the program") {
  const auto saves = [](const std::string& lines, std::string_view name) {
    return gradient(lines).find_tensor(name).valid();
  };
  CHECK(saves("normalize retention", "row_sum"));
  CHECK_FALSE(saves("normalize retention", "lse"));
  CHECK_FALSE(saves("normalize sigmoid", "lse"));
  CHECK(saves("output max_logit", "max_key"));
  CHECK(saves("output max_logit", "dmax_logit"));
}

TEST_CASE("no gradient of a captured tensor passes through a value for every pair") {
  for (const char* lines :
       {"param s : f32[heads] grad score x - s[h] * abs(i - j) mask causal",
        "param t : f32[heads, 32] grad score relative_bias(t, bidirectional(max_distance = 128))",
        "param w : f32[heads] grad score x * exp(w[h] * to_f32(j - i)) mask causal"})
    CHECK_FALSE(sums_to_pairs(gradient(lines)));
}

TEST_CASE("sums run under the mask") {
  const Graph graph =
      gradient("param s : f32[heads] grad score x + exp(s[h]) * (j - i) mask causal && h > i");
  int sums = 0;
  for (NodeId id : cone(graph, graph.outputs())) {
    if (!as<SumOver>(graph.node(id)) && !as<Contract>(graph.node(id))) continue;
    const std::vector<NodeId> operands = graph.operands(id);
    CHECK(graph.node(operands.back()).axes == Axes{Axis::h, Axis::i, Axis::j});
    ++sums;
  }
  CHECK(sums == 4);
}

TEST_CASE("a tensor that several stages read gets a sum of each") {
  const Graph graph = gradient("param t : f32 grad query x * t key x + t score x * t output x * t");
  CHECK(graph.operands(graph.output("dt")).size() == 4);
}

TEST_CASE("a tensor that nothing reads has a gradient of no terms") {
  const Graph graph = gradient("param t : f32[heads] grad");
  CHECK(graph.operands(graph.output("dt")).empty());
}

TEST_CASE("gradients that nobody wants are not computed") {
  const Graph without = gradient("param t : f32[heads] score x * t[h]");
  CHECK_FALSE(without.output("dt").valid());
  CHECK(count<Scatter>(without) == 0);
}

TEST_CASE("a score expression that does not read x leaves queries and keys a gradient of zero") {
  const Graph graph = gradient("param t : f32[heads] grad score x * 0.5 mask causal");
  const Graph zero = gradient("score x - x");
  CHECK(as<Constant>(graph.node(graph.operand(graph.output("dq"), 0))) == nullptr);
  CHECK(verify(zero).empty());
}

TEST_CASE("a wanted gradient that can only be zero is a mistake") {
  const std::string text = complaint("param n : f32[heads] grad mask j > n[h]");
  CHECK(text.find(
            "error[gradient.discrete]: the gradient of \"n\" is zero: it is read in masks, comparisons and "
            "roundings alone") != std::string::npos);
  CHECK(text.find("fix: leave out `grad`") != std::string::npos);
  CHECK(complaint("param n : f32[heads] grad score x + floor(n[h])").find("gradient.discrete") !=
        std::string::npos);
  CHECK(complaint("param n : f32[heads] grad score x + n[h] mask j > n[h]").empty());
}

TEST_CASE("programs with two score heads are refused") {
  CHECK(complaint("output differential(0.5)")
            .find("error[gradient.score-heads]: gradients of programs with two") != std::string::npos);
}

TEST_CASE("captured tensors may not have the names of gradients") {
  CHECK(complaint("param do : f32[heads] score x + do[h]")
            .find("error[gradient.name]: \"do\" is what the backward "
                  "pass calls the gradient of an output") != std::string::npos);
  CHECK(complaint("param s : f32 grad param ds : f32 score x * s + ds")
            .find("\"ds\" is what the backward pass calls the gradient of \"s\"") != std::string::npos);
  CHECK(complaint("param dq : f32 score x * dq").find("gradient.name") != std::string::npos);
}

TEST_CASE("the same program gives the same text") {
  const std::string lines =
      "param s : f32[heads] grad query rope key rope score softcap(30) score x + s[h] * (j - i) mask causal";
  CHECK(print(gradient(lines)) == print(gradient(lines)));
}

}  // namespace
}  // namespace attnfuse
