#include <doctest/doctest.h>

#include "ir/analysis.h"
#include "ir/gradient.h"

namespace attnfuse {
namespace {

// A gradient graph of plain scores as weights, with places to put something else in.
struct GradientProgram {
  using Value = std::function<NodeId(Graph&)>;
  Value dq, dk, dv, slope;
  std::vector<Extent> upstream{{Size::batch}, {Size::heads}, {Size::sq}, {Size::v_head_dim}};
  DType slope_dtype = DType::f32;
  std::string last = "dslope";

  Graph build() const {
    Graph graph(ProgramInfo{"small", 4, 2, 64, 64, DType::f32, {"spec.attn", 1, 11, 5}});
    const Extent b{Size::batch}, h{Size::heads}, g{Size::kv_heads};
    graph.add_tensor(
        {"q", DType::f32, TensorRole::query, {b, h, {Size::sq}, {Size::head_dim}}, false, {}, {}});
    graph.add_tensor(
        {"k", DType::f32, TensorRole::key, {b, g, {Size::skv}, {Size::head_dim}}, false, {}, {}});
    graph.add_tensor(
        {"v", DType::f32, TensorRole::value, {b, g, {Size::skv}, {Size::v_head_dim}}, false, {}, {}});
    graph.add_tensor({"slope", slope_dtype, TensorRole::captured, {h}, true, {}, {"spec.attn", 2, 9, 5}});
    graph.add_tensor({"do", DType::f32, TensorRole::upstream, upstream, false, {}, {}});
    const auto value = [&](const Value& given) { return given ? given(graph) : graph.constant(0); };
    graph.add(Output{"dq"}, {value(dq)});
    graph.add(Output{"dk"}, {value(dk)});
    graph.add(Output{"dv"}, {value(dv)});
    if (slope)
      graph.add(Output{last}, {slope(graph)});
    else
      graph.add(Output{last});
    return graph;
  }
};

constexpr Axes kPairs{Axis::b, Axis::h, Axis::i, Axis::j};

NodeId input(Graph& graph, std::string_view name) { return graph.add(Input{graph.find_tensor(name)}); }
NodeId truth(Graph& graph) { return graph.constant(1, ValueType::boolean); }
NodeId causal(Graph& graph) {
  return graph.apply(ScalarOp::ile, {graph.index(Axis::j), graph.index(Axis::i)});
}
NodeId scores(Graph& graph) { return graph.add(Scores{}, {input(graph, "q"), input(graph, "k")}); }

std::string complaint(const GradientProgram& program) { return render(verify(program.build())); }
bool complains(const GradientProgram& program, const std::string& words) {
  const std::string text = complaint(program);
  CAPTURE(text);
  return text.find(words) != std::string::npos;
}

TEST_CASE("sums over pairs, sums into elements and zeros make a legal gradient graph") {
  GradientProgram program;
  CHECK(complaint(program) == "");
  program.dq = [](Graph& graph) {
    return graph.add(Contract{Axis::j}, {scores(graph), input(graph, "k"), causal(graph)});
  };
  program.dv = [](Graph& graph) {
    return graph.add(Contract{Axis::i}, {scores(graph), input(graph, "do"), causal(graph)});
  };
  program.slope = [](Graph& graph) {
    const NodeId sum = graph.add(SumOver{{Axis::b, Axis::i, Axis::j}}, {scores(graph), causal(graph)});
    return graph.add(Scatter{graph.find_tensor("slope"), {Axis::h}},
                     {sum, graph.index(Axis::h), truth(graph)});
  };
  CHECK(complaint(program) == "");
  const std::string text = print(program.build());
  CHECK(text.find("upstream do : f32 [batch, heads, sq, v_head_dim]\n") != std::string::npos);
  CHECK(text.find(" = contract j ") != std::string::npos);
  CHECK(text.find(" = sum over {b,i,j} ") != std::string::npos);
  CHECK(text.find(" = scatter slope over {h} ") != std::string::npos);
}

TEST_CASE("products of gradients are over i or j, of rows that lie there, under a truth value") {
  GradientProgram program;
  program.dq = [](Graph& graph) {
    return graph.add(Contract{Axis::j}, {scores(graph), input(graph, "q"), truth(graph)});
  };
  CHECK(complains(program, "rows with the axes {b,h,i,d} cannot be summed over j by {b,h,i,j}"));
  program.dq = [](Graph& graph) {
    return graph.add(Contract{Axis::h}, {scores(graph), input(graph, "k"), truth(graph)});
  };
  CHECK(complains(program, "summed over i or j, not h"));
  program.dq = [](Graph& graph) {
    return graph.add(Contract{Axis::j}, {scores(graph), input(graph, "k"), graph.constant(1)});
  };
  CHECK(complains(program, "a mask is a truth value"));
}

TEST_CASE("what is summed into elements lies at the positions of the sum") {
  GradientProgram program;
  program.slope = [](Graph& graph) {
    const Scatter scatter{graph.find_tensor("slope"), {Axis::b, Axis::h, Axis::i}};
    return graph.add(scatter, {scores(graph), graph.index(Axis::h), truth(graph)});
  };
  CHECK(complains(program, "a value with the axes {b,h,i,j} is summed at positions of {b,h,i}"));
}

TEST_CASE("a sum has what axes its value and its mask have, without those it is over") {
  Graph graph = GradientProgram{}.build();
  const NodeId sum = graph.add(SumOver{{Axis::b, Axis::i}}, {graph.index(Axis::h), causal(graph)});
  CHECK(graph.node(sum).axes == Axes{Axis::h, Axis::j});
}

TEST_CASE("a captured gradient is made of sums into its own elements, and is an output alone") {
  GradientProgram program;
  program.slope = [](Graph& graph) { return graph.constant(0); };
  CHECK(complains(program, "the gradient of \"slope\" is made of sums into its elements"));
  const auto scattered = [](Graph& graph) {
    return graph.add(Scatter{graph.find_tensor("slope"), kPairs},
                     {scores(graph), graph.index(Axis::h), causal(graph)});
  };
  program.slope = [&](Graph& graph) { return scattered(graph); };
  program.dq = [&](Graph& graph) { return graph.apply(ScalarOp::neg, {scattered(graph)}); };
  CHECK(complains(program, "the gradient of a captured tensor is an output alone"));
  program.dq = {};
  program.slope = [](Graph& graph) {
    return graph.add(Scatter{graph.find_tensor("slope"), kPairs},
                     {scores(graph), graph.constant(0), causal(graph)});
  };
  CHECK(complains(program, "index 1 into the gradient of \"slope\" is not i32"));
}

TEST_CASE("every wanted gradient is an output once, at its tensor's axes") {
  GradientProgram program;
  program.last = "dq";
  CHECK(complains(program, "output \"dq\" is the gradient of no tensor, or there twice"));
  CHECK(complains(program, "there is no output \"dslope\""));
  program.last = "dslope";
  program.dk = [](Graph& graph) { return input(graph, "q"); };
  CHECK(complains(program, "the gradient of \"k\" is one f32 value at {b,g,j,d}"));
}

TEST_CASE("gradient graphs do not repeat the forward pass, and no value has the axes of two tiles") {
  GradientProgram program;
  program.dq = [](Graph& graph) {
    const NodeId weights = graph.add(Normalize{NormalizeKind::softmax}, {scores(graph), truth(graph)});
    return graph.add(Attend{}, {weights, input(graph, "v")});
  };
  CHECK(complains(program, "reads what the forward pass saved and computes none of it again"));
  program.dq = [](Graph& graph) { return graph.apply(ScalarOp::mul, {scores(graph), input(graph, "q")}); };
  CHECK(complains(program, "no tile has the axes {b,h,i,j,d}"));
}

TEST_CASE("upstream tensors have rows or elements of the output") {
  GradientProgram program;
  program.upstream = {{Size::batch}, {Size::sq}};
  CHECK(complains(program, "\"do\" must have shape [batch, heads, sq] or [batch, heads, sq, v_head_dim]"));
}

TEST_CASE("integers have no gradient") {
  GradientProgram program;
  program.slope_dtype = DType::i32;
  CHECK(complaint(program) ==
        "spec.attn:2:9: error[tensor.grad]: \"slope\" is i32, which has no gradient\n"
        "  fix: leave out `grad`, or declare the tensor f32, f16 or bf16");
}

}  // namespace
}  // namespace attnfuse
