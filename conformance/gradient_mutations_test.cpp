// Wrong gradients are seen: gradient graphs with one mistake each, of the kinds that kernels have had, are
// legal and differ from the reference.
#include <doctest/doctest.h>

#include <algorithm>

#include "conformance/gradient_case.h"
#include "frontend/parser.h"
#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/differentiate.h"

namespace attnfuse::conformance {
namespace {

// One node of the graph as it is built anew, its operands already there.
struct Site {
  Graph& to;
  const Graph& from;
  NodeId id;
  std::span<const NodeId> operands;

  const Node& node() const { return from.node(id); }
  const Node& operand(int k) const { return from.node(from.operand(id, k)); }
  bool is(ScalarOp op) const {
    const auto* apply = as<Apply>(node());
    return apply && apply->op == op;
  }
  bool reads(std::string_view tensor) const {
    const auto* input = as<Input>(node());
    return input && from.tensor(input->tensor).name == tensor;
  }
  // Whether the k-th operand comes from the product with dO, or with dS.
  bool is_gradient(int k) const {
    const std::vector<NodeId> below = cone(from, {from.operand(id, k)});
    return std::ranges::any_of(below,
                               [&](NodeId below_id) { return as<Contract>(from.node(below_id)) != nullptr; });
  }
  NodeId zero() const { return to.constant(0); }
  NodeId truth() const { return to.constant(1, ValueType::boolean); }
  NodeId with_operand(std::size_t k, NodeId other) const {
    std::vector<NodeId> changed(operands.begin(), operands.end());
    changed[k] = other;
    return to.add(node().kind, changed);
  }
};

struct Mutation {
  std::string_view mistake;
  std::string_view lines;  // of a program with 4 heads and 2 key heads
  // The wrong node, or an invalid id where nothing is wrong.
  NodeId (*mutate)(const Site& site);
};

constexpr Mutation kMutations[] = {
    {"delta is dropped", "normalize softmax",
     [](const Site& site) {
       const bool found = site.is(ScalarOp::sub) && as<Scores>(site.operand(0)) &&
                          site.operand(1).axes == Axes{Axis::b, Axis::h, Axis::i};
       return found ? site.operands[0] : NodeId{};
     }},
    {"delta misses the gradient of the log-sum-exp", "normalize softmax",
     [](const Site& site) { return site.reads("dlse") ? site.zero() : NodeId{}; }},
    {"delta has the gradient of the log-sum-exp with the wrong sign", "normalize softmax",
     [](const Site& site) {
       const auto* input = site.is(ScalarOp::sub) ? as<Input>(site.operand(1)) : nullptr;
       const bool found = input && site.from.tensor(input->tensor).name == "dlse";
       return found ? site.to.apply(ScalarOp::add, {site.operands[0], site.operands[1]}) : NodeId{};
     }},
    {"the rotation is applied again in place of its transpose", "query rope(dims = 8) key rope(dims = 8)",
     [](const Site& site) {
       const bool found = as<Partner>(site.node()) && site.is_gradient(0);
       return found ? site.to.apply(ScalarOp::neg, {site.to.add(site.node().kind, site.operands)}) : NodeId{};
     }},
    {"the rotation is not undone", "query rope(dims = 8) key rope(dims = 8)",
     [](const Site& site) {
       return as<Partner>(site.node()) && site.is_gradient(0) ? site.zero() : NodeId{};
     }},
    {"softcap misses 1 - tanh^2", "score softcap(2)",
     [](const Site& site) {
       if (!site.is(ScalarOp::sub)) return NodeId{};
       const auto* one = as<Constant>(site.operand(0));
       return one && one->value == 1 && site.operand(1).axes.has(Axis::j) ? site.operands[0] : NodeId{};
     }},
    {"keys get the gradient of one query head of their group", "normalize softmax",
     [](const Site& site) {
       const auto* contract = as<Contract>(site.node());
       if (!contract || contract->over != Axis::i) return NodeId{};
       const NodeId two = site.to.constant(2, ValueType::i32), none = site.to.constant(0, ValueType::i32);
       const NodeId place = site.to.apply(ScalarOp::imod, {site.to.index(Axis::h), two});
       const NodeId first = site.to.apply(ScalarOp::ieq, {place, none});
       return site.with_operand(2, site.to.apply(ScalarOp::logical_and, {site.operands[2], first}));
     }},
    {"the sink gets no gradient", "param s : f32[heads] grad normalize softmax(sink = s)",
     [](const Site& site) {
       const auto* output = as<Output>(site.node());
       return output && output->name == "ds" ? site.to.add(Output{"ds"}) : NodeId{};
     }},
    {"the sink's gradient leaves the log-sum-exp out",
     "param s : f32[heads] grad normalize softmax(sink = s)",
     [](const Site& site) {
       if (!site.is(ScalarOp::mul) || site.node().axes.has(Axis::j) || site.node().axes.has(Axis::d))
         return NodeId{};
       for (std::size_t k = 0; k < 2; ++k)  // the share of the sink
         if (const auto* apply = as<Apply>(site.operand(int(k))); apply && apply->op == ScalarOp::exp) {
           const NodeId delta = site.operands[1 - k];
           return site.to.apply(ScalarOp::mul, {site.operands[k], site.to.operand(delta, 0)});
         }
       return NodeId{};
     }},
    {"dK is summed over masked rows", "mask causal",
     [](const Site& site) {
       const auto* contract = as<Contract>(site.node());
       return contract && contract->over == Axis::i ? site.with_operand(2, site.truth()) : NodeId{};
     }},
    {"dQ is summed over masked keys", "mask causal",
     [](const Site& site) {
       const auto* contract = as<Contract>(site.node());
       return contract && contract->over == Axis::j ? site.with_operand(2, site.truth()) : NodeId{};
     }},
    {"the dropped weights are not dropped again", "param seed : i32 weights dropout(0.4, seed)",
     [](const Site& site) { return site.is(ScalarOp::philox) ? site.to.constant(1) : NodeId{}; }},
    {"a table's gradient lands in the next bucket",
     "param t : f32[heads, 9] grad score relative_bias(t, causal(max_distance = 40))",
     [](const Site& site) {
       if (!as<Scatter>(site.node())) return NodeId{};
       const NodeId one = site.to.constant(1, ValueType::i32);
       return site.with_operand(2, site.to.apply(ScalarOp::iadd, {site.operands[2], one}));
     }},
    {"a slope's gradient is that of the first batch entry",
     "param slope : f32[heads] grad score x + slope[h] * (j - i)",
     [](const Site& site) {
       if (!as<SumOver>(site.node()) && !as<Scatter>(site.node())) return NodeId{};
       const NodeId none = site.to.constant(0, ValueType::i32);
       const NodeId first = site.to.apply(ScalarOp::ieq, {site.to.index(Axis::b), none});
       const std::size_t mask = site.operands.size() - 1;
       if (!site.operand(0).axes.has(Axis::b)) return NodeId{};
       return site.with_operand(mask, site.to.apply(ScalarOp::logical_and, {site.operands[mask], first}));
     }},
    {"a norm's gradient misses the part through the size of the row", "query norm(eps = 0.01)",
     [](const Site& site) {
       return as<Reduce>(site.node()) && site.is_gradient(0) ? site.zero() : NodeId{};
     }},
    {"a norm's weight gets the gradient of all heads' first row",
     "param w : f32[head_dim] grad key norm(weight = w)",
     [](const Site& site) {
       if (!as<Scatter>(site.node()) && !as<SumOver>(site.node())) return NodeId{};
       const NodeId none = site.to.constant(0, ValueType::i32);
       const NodeId first = site.to.apply(ScalarOp::ieq, {site.to.index(Axis::j), none});
       const std::size_t mask = site.operands.size() - 1;
       if (!site.operand(0).axes.has(Axis::j)) return NodeId{};
       return site.with_operand(mask, site.to.apply(ScalarOp::logical_and, {site.operands[mask], first}));
     }},
    {"retention forgets that it divides by the sum", "score x * 3 normalize retention",
     [](const Site& site) {
       const auto* input = site.is(ScalarOp::abs) ? as<Input>(site.operand(0)) : nullptr;
       return input ? site.zero() : NodeId{};
     }},
    {"the gate is left out of dO", "param z : f32[batch, heads, sq] output x * z[b, h, i]",
     [](const Site& site) {
       if (!site.is(ScalarOp::mul)) return NodeId{};
       for (std::size_t k = 0; k < 2; ++k)
         if (const auto* input = as<Input>(site.operand(int(k)));
             input && site.from.tensor(input->tensor).name == "do")
           return site.operands[k];
       return NodeId{};
     }},
    {"the largest score is the key's after it", "output max_logit",
     [](const Site& site) {
       const NodeId one = site.to.constant(1, ValueType::i32);
       const bool found = site.is(ScalarOp::ieq) && site.node().axes.has(Axis::j);
       return found ? site.to.apply(ScalarOp::ieq, {site.to.apply(ScalarOp::iadd, {site.operands[0], one}),
                                                    site.operands[1]})
                    : NodeId{};
     }},
};

double difference(const GradientCase& c, const Graph& gradient, const ReferenceGradients& reference) {
  return compare_gradients(graph_gradients(c, gradient, reference.saved), reference.gradients).worst;
}

}  // namespace

TEST_CASE("every mistake that backward kernels are known for is seen beside the reference") {
  for (const Mutation& mutation : kMutations) {
    CAPTURE(mutation.mistake);
    const std::string text =
        "attention t { heads 4 kv_heads 2 head_dim 16 dtype f32 " + std::string(mutation.lines) + " }";
    const auto specs = parse_spec(text);
    REQUIRE(specs);
    const auto c = make_gradient_case(specs->at(0), {2, 6, 9}, 21);
    REQUIRE_MESSAGE(c, render(c.errors(), text));
    const auto reference = reference_backward(c->graph, c->inputs, c->upstream);
    REQUIRE(reference);
    const auto gradient = differentiate(c->graph);
    REQUIRE_MESSAGE(gradient, render(gradient.errors()));
    CHECK(difference(*c, *gradient, *reference) < 1e-9);

    int mistakes = 0;
    const Graph wrong = rewrite_live(
        *gradient, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> operands) {
          const NodeId made = mutation.mutate({to, from, id, operands});
          mistakes += made.valid() ? 1 : 0;
          return made;
        });
    CAPTURE(print(*gradient));
    CHECK(mistakes > 0);
    CHECK_MESSAGE(verify(wrong).empty(), render(verify(wrong)));
    CHECK(difference(*c, wrong, *reference) > 1e-3);
  }
}

}  // namespace attnfuse::conformance
