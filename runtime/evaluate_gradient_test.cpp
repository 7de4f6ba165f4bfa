// Gradient graphs of random expressions in every stage, node by node, beside the reference's backward.
// Programs of the language: conformance/gradient_test.cpp.
#include "runtime/evaluate_gradient.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis.h"
#include "ir/gradient.h"
#include "passes/differentiate.h"
#include "passes/random_expression.h"
#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint32_t seed) : p_(small()), random_(p_.graph, seed) {}

  Graph build() {
    p_.q = transform(p_.q, {Axis::b, Axis::h, Axis::i, Axis::d}, "tq", 8);
    p_.k = transform(p_.k, {Axis::b, Axis::g, Axis::j, Axis::d}, "tk", 8);
    p_.v = transform(p_.v, {Axis::b, Axis::g, Axis::j, Axis::d}, "tv", 16);
    const NodeId x = p_.op(Op::mul, p_.scores(), g().constant(0.3));
    const NodeId score = expression(x, {Axis::b, Axis::h, Axis::i, Axis::j}, "ts", 4);
    leaves({Axis::b, Axis::h, Axis::i, Axis::j});
    const NodeId mask = p_.op(Op::logical_or, random_.boolean(3), random_.boolean(2));
    std::vector<NodeId> operands{score, mask};
    constexpr NormalizeKind kKinds[] = {NormalizeKind::softmax, NormalizeKind::softmax_sink,
                                        NormalizeKind::none, NormalizeKind::retention};
    const NormalizeKind kind = kKinds[random_.below(4)];
    const bool is_softmax = kind == NormalizeKind::softmax || kind == NormalizeKind::softmax_sink;
    if (kind == NormalizeKind::softmax_sink)
      operands.push_back(expression(g().constant(0.5), {Axis::b, Axis::h, Axis::i}, "tn", 3));
    const NodeId weights = g().add(Normalize{kind}, operands);
    const NodeId factor = expression(g().constant(1), {Axis::b, Axis::h, Axis::i, Axis::j}, "tw", 3);
    const NodeId o = g().add(Attend{}, {p_.op(Op::mul, weights, factor), p_.v});
    g().add(Output{"o"}, {transform(o, {Axis::b, Axis::h, Axis::i, Axis::d}, "to", 16)});
    g().add(Output{"lse"}, {g().add(LogSumExp{}, {weights})});
    if (is_softmax && random_.chance(50)) g().add(Output{"max_logit"}, {g().add(RowMax{}, {weights})});
    return p_.graph;
  }

 private:
  using Op = ScalarOp;
  Graph& g() { return p_.graph; }

  void leaves(std::initializer_list<Axis> axes) {
    random_.i32_leaves = {g().constant(2, ValueType::i32)};
    random_.f32_leaves.clear();
    for (Axis axis : axes) random_.i32_leaves.push_back(g().index(axis));
  }

  // Elements of a new tensor, and of one that all stages read.
  void add_captured(const char* name) {
    TensorInfo info =
        declared(name, DType::f32, TensorRole::captured, {{std::int64_t(3)}, {std::int64_t(5)}});
    info.grad = true;
    const TensorId own = g().add_tensor(info);
    if (!common_.valid()) {
      info.name = "common";
      common_ = g().add_tensor(info);
    }
    for (TensorId tensor : {own, common_})
      random_.f32_leaves.push_back(g().add(Gather{tensor}, {random_.i32(2), random_.i32(2)}));
  }

  NodeId expression(NodeId x, std::initializer_list<Axis> axes, const char* name, int depth) {
    leaves(axes);
    add_captured(name);
    if (!as<Constant>(g().node(x))) random_.f32_leaves.push_back(x);
    return p_.op(Op::add, x, random_.f32(depth));
  }

  NodeId transform(NodeId x, std::initializer_list<Axis> axes, const char* name, int dim) {
    leaves(axes);
    add_captured(name);
    const RotaryPairs pairs = random_.chance(50) ? RotaryPairs::half : RotaryPairs::interleaved;
    const NodeId shifted = p_.op(Op::add, x, random_.f32_leaves[0]);
    const NodeId squares = g().add(Reduce{ReduceOp::sum}, {p_.op(Op::mul, shifted, x)});
    random_.f32_leaves.push_back(g().add(Reduce{ReduceOp::sum}, {shifted}));
    random_.f32_leaves.push_back(x);
    random_.f32_leaves.push_back(g().add(Partner{pairs, dim - 2}, {x}));
    random_.f32_leaves.push_back(g().apply(Op::tanh, {p_.op(Op::mul, squares, g().constant(0.1))}));
    random_.f32_leaves.push_back(
        g().add(Reduce{random_.chance(50) ? ReduceOp::max : ReduceOp::maximum}, {x}));
    const NodeId y = random_.f32(3);
    return p_.op(Op::add, x, g().add(Partner{pairs, 4}, {p_.op(Op::add, y, x)}));
  }

  Program p_;
  RandomExpression random_;
  TensorId common_;
};

HostTensors data(const Graph& graph, const Sizes& sizes, unsigned seed) {
  HostTensors in = inputs_for(small(), sizes);
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role == TensorRole::captured) in[tensor.name] = filled(DType::f32, {3, 5}, seed++);
  return in;
}

// What differs most, relative to the largest of its tensor.
double difference(const NamedValues& outputs, const NamedValues& wanted) {
  double worst = 0;
  for (const auto& [name, values] : wanted) {
    const std::vector<double>& got = outputs.at(gradient_name(name));
    REQUIRE(got.size() == values.size());
    double largest = 1;
    for (double value : values) largest = std::max(largest, std::abs(value));
    for (std::size_t n = 0; n < values.size(); ++n) {
      const double error = std::abs(got[n] - values[n]) / largest;
      worst = error <= worst ? worst : error;  // NaN stays
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("gradient graphs of random expressions in every stage have the reference's gradients") {
  constexpr Sizes kSizes{2, 3, 4};
  int compared = 0;
  for (std::uint32_t seed = 1; seed <= 150; ++seed) {
    CAPTURE(seed);
    const Graph graph = RandomProgram(seed).build();
    if (!verify(graph).empty()) continue;  // a division by zero
    const HostTensors in = data(graph, kSizes, seed);
    NamedValues upstream;
    const auto rows = std::size_t(kSizes.batch * small().heads * kSizes.sq);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (NodeId output : graph.outputs()) {
      const bool has_dim = graph.node(output).axes.has(Axis::d);
      std::vector<double>& values = upstream[as<Output>(graph.node(output))->name];
      for (std::size_t n = 0; n < rows * (has_dim ? 16 : 1); ++n) values.push_back(normal(random));
    }
    const auto reference = reference_backward(graph, in, upstream);
    REQUIRE(reference);
    const auto gradient = differentiate(graph);
    if (!gradient && gradient.errors()[0].code == "gradient.discrete") continue;
    REQUIRE_MESSAGE(gradient, render(gradient.errors()));
    NamedValues saved = reference->saved;
    for (const auto& [name, values] : upstream) saved[gradient_name(name)] = values;
    const auto outputs = evaluate_gradient(*gradient, in, saved);
    REQUIRE(outputs);
    CHECK(difference(*outputs, reference->gradients) < 1e-9);
    ++compared;
  }
  CHECK(compared > 75);
}

TEST_CASE("upstream gradients that are not given are zero") {
  Program p(small());
  const Graph graph = p.finish(p.scores(), p.all());
  const HostTensors in = inputs_for(small(), {1, 2, 3});
  const NamedValues upstream{{"o", std::vector<double>(4 * 2 * 16, 0.5)}};
  const auto reference = reference_backward(graph, in, upstream);
  REQUIRE(reference);
  NamedValues rows = reference->saved;
  rows["do"] = upstream.at("o");
  const auto some = evaluate_gradient(*differentiate(graph), in, rows);
  REQUIRE(some);
  CHECK(difference(*some, reference->gradients) < 1e-9);
  rows["dlse"] = std::vector<double>(4 * 2, 0);
  CHECK(*evaluate_gradient(*differentiate(graph), in, rows) == *some);
}

TEST_CASE("inputs that do not fit the gradient graph are diagnosed") {
  Program p(small());
  const auto gradient = differentiate(p.finish(p.scores(), p.all()));
  REQUIRE(gradient);
  const auto outputs = evaluate_gradient(*gradient, {}, {});
  REQUIRE_FALSE(outputs);
  CHECK(outputs.errors()[0].code == "input.missing");
}
