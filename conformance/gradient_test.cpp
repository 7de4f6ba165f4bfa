// Backward without kernels: the reference's gradients against finite differences of its forward pass, and the
// gradient graph of every program, evaluated, against the reference's gradients.
#include <doctest/doctest.h>

#include <set>

#include "conformance/cases.h"
#include "conformance/examples.h"
#include "conformance/gradient_case.h"
#include "conformance/random_program.h"
#include "frontend/parser.h"
#include "passes/differentiate.h"

namespace attnfuse::conformance {
namespace {

constexpr Sizes kSizes{2, 5, 7};

GradientCase case_of(std::string_view text, std::uint64_t seed, const Sizes& sizes = kSizes) {
  const auto specs = parse_spec(text);
  REQUIRE_MESSAGE(specs, render(specs.errors(), text));
  const auto made = make_gradient_case(differentiable(specs->at(0)), sizes, seed);
  REQUIRE_MESSAGE(made, render(made.errors(), text));
  return *made;
}

// A step may cross a kink of max or clamp; hardly every one of three does.
void check_reference(const GradientCase& c, const NamedValues& gradients) {
  for (const auto& [name, values] : gradients) {
    Change change{};
    bool agree = false;
    for (std::uint64_t direction = 11; direction < 14 && !agree; ++direction) {
      change = move_tensor(c, gradients, name, direction);
      agree = std::abs(change.found - change.predicted) <= 1e-4 * change.scale + 1e-9;
    }
    CAPTURE(name);
    CAPTURE(change.found);
    CAPTURE(change.predicted);
    CHECK(agree);
  }
}

void check_graph(const GradientCase& c, const ReferenceGradients& reference) {
  const auto gradient = differentiate(c.graph);
  // All float tensors are marked, also what only masks read.
  if (!gradient && gradient.errors()[0].code == "gradient.discrete") return;
  REQUIRE_MESSAGE(gradient, render(gradient.errors()));
  const NamedValues gradients = graph_gradients(c, *gradient, reference.saved);
  const Difference difference = compare_gradients(gradients, reference.gradients);
  CAPTURE(difference.tensor);
  CHECK(difference.worst <= 1e-9);
}

void check(const GradientCase& c) {
  if (c.graph.info().score_heads > 1) return;  // differentiate() refuses them
  const auto backward = reference_backward(c.graph, c.inputs, c.upstream);
  REQUIRE(backward);
  check_reference(c, backward->gradients);
  check_graph(c, *backward);
}

}  // namespace

TEST_CASE(
    "examples: the reference's gradients are those of its forward pass, and the gradient graph's are the "
    "same") {
  for (const Example& example : examples()) {
    CAPTURE(example.name);
    check(case_of(example.text, 3));
  }
}

TEST_CASE("blocks, alone and in pairs: the reference's gradients and the gradient graph's") {
  std::set<std::string> seen;
  for (const Case& c : all_cases(CaseSet::quick)) {
    if (c.family != "blocks" && c.family != "pairs") continue;
    const Spec spec = differentiable(parse_spec(c.program)->at(0));
    if (!seen.insert(print(spec)).second) continue;
    CAPTURE(c.program);
    check(*make_gradient_case(spec, {1, 5, 7}, c.seed));
  }
  CHECK(seen.size() > 50);
}

TEST_CASE("random programs: the reference's gradients and the gradient graph's") {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::string text = random_program(random).text;
    CAPTURE(text);
    if (parse_one(text)) check(case_of(text, seed));
  }
}

TEST_CASE("gradient graphs: masked slots get exactly zero, and what they hold reaches nothing") {
  const std::string text =
      "attention t { heads 4 kv_heads 2 head_dim 16 dtype f32 param w : f32[head_dim] param u : "
      "f32[head_dim] "
      "param s : f32[heads] query norm key norm(weight = w) key rope value norm(layer, weight = u) "
      "score x + exp(s[h]) * (j - i) mask j % 3 != 1 && i != 2 }";
  GradientCase c = case_of(text, 9, {1, 5, 7});
  const auto gradient = differentiate(c.graph);
  REQUIRE(gradient);
  const auto reference = reference_backward(c.graph, c.inputs, c.upstream);
  REQUIRE(reference);
  const NamedValues clean = graph_gradients(c, *gradient, reference->saved);
  CHECK(compare_gradients(clean, reference->gradients).worst <= 1e-9);
  for (const char* name : {"k", "v", "q"})
    for_each_index(c.inputs.at(name).layout.shape, [&](std::span<const std::int64_t> index) {
      const bool unseen = name[0] == 'q' ? index[2] == 2 : index[2] % 3 == 1;
      if (unseen) c.inputs.at(name).set(index, index[3] % 2 == 0 ? NAN : INFINITY);
    });
  CHECK(graph_gradients(c, *gradient, reference->saved) == clean);
  CHECK(reference_backward(c.graph, c.inputs, c.upstream)->gradients == reference->gradients);
  for (const auto& [name, row] : {std::pair{"q", 2}, {"k", 1}, {"k", 4}, {"v", 4}})
    for (int d = 0; d < 16; ++d) CHECK(clean.at(name)[std::size_t(row * 16 + d)] == 0);
}

TEST_CASE("gradients where derivatives do not exist are the same in the graph and the reference") {
  for (const char* lines :
       {"score max(x, x)", "score min(x, 0.0 * x + x)", "score abs(x - x)", "query clip(0.5)",
        "normalize relu", "param t : f32[heads] score max(x * 0.0, t[h])",
        "param t : f32[heads] score x + max(t[h], t[h] * 1.0) + min(1.0 * t[h], t[h])"}) {
    CAPTURE(lines);
    GradientCase c =
        case_of("attention t { heads 4 kv_heads 2 head_dim 16 dtype f32 " + std::string(lines) + " }", 2);
    for (auto& [name, tensor] : c.inputs)  // exactly at the kinks, now and then
      for_each_index(tensor.layout.shape, [&](std::span<const std::int64_t> index) {
        tensor.set(index, std::round(2 * tensor.get(index)) / 2);
      });
    const auto reference = reference_backward(c.graph, c.inputs, c.upstream);
    REQUIRE(reference);
    check_graph(c, *reference);
  }
}

TEST_CASE("gradients of calls without queries, keys or batch entries, and of single rows") {
  for (const Sizes& sizes :
       {Sizes{0, 3, 3}, Sizes{1, 0, 3}, Sizes{1, 3, 0}, Sizes{1, 1, 1}, Sizes{1, 1, 9}, Sizes{1, 9, 1}})
    for (const char* name : {"llama3_8b", "gpt_oss", "t5", "hstu", "retnet"}) {
      CAPTURE(name);
      CAPTURE(sizes.sq);
      CAPTURE(sizes.skv);
      check(case_of(find_example(name)->text, 7, sizes));
    }
}

}  // namespace attnfuse::conformance
