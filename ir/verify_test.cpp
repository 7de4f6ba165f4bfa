#include <doctest/doctest.h>

#include "ir/analysis.h"
#include "ir/test_program.h"

namespace attnfuse {
namespace {

// What verify() says about the program, rendered.
std::string complaint(const Graph& graph) { return render(verify(graph)); }
std::string complaint(const TestProgram& program) { return complaint(program.build()); }

TestProgram with_info(const std::function<void(ProgramInfo&)>& change) {
  TestProgram program;
  change(program.info);
  return program;
}

TestProgram with_score(TestProgram::Expression score) {
  TestProgram program;
  program.score = std::move(score);
  return program;
}

TestProgram with_tensor(TensorInfo tensor) {
  TestProgram program;
  tensor.where = at(3, 9, 5);
  program.captured.push_back(std::move(tensor));
  return program;
}

TensorInfo slope() { return {"slope", DType::f32, TensorRole::captured, {{Size::heads}}, false, {}, {}}; }

TEST_CASE("a plain program is legal, with every stage used") {
  CHECK(complaint(TestProgram{}) == "");
  TestProgram program = with_tensor(slope());
  const TestProgram::Expression paired = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::add, {x, graph.add(Partner{RotaryPairs::half, 64}, {x})});
  };
  program.query = program.key = program.value = paired;
  program.score = [](Graph& graph, NodeId x) {
    const NodeId gathered = graph.add(Gather{{3}}, {graph.index(Axis::h)});
    const NodeId distance = graph.apply(ScalarOp::isub, {graph.index(Axis::j), graph.index(Axis::i)});
    const NodeId bias = graph.apply(ScalarOp::mul, {gathered, graph.apply(ScalarOp::to_f32, {distance})});
    return graph.apply(ScalarOp::add, {x, bias});
  };
  program.mask = [](Graph& graph, NodeId) {
    return graph.apply(ScalarOp::ige, {graph.index(Axis::i), graph.index(Axis::j)});
  };
  program.sink = [](Graph& graph, NodeId) { return graph.add(Gather{{3}}, {graph.index(Axis::h)}); };
  CHECK(complaint(program) == "");
}

TEST_CASE("a program's name must be usable as a kernel name") {
  CHECK(
      complaint(with_info([](ProgramInfo& info) { info.name = "my kernel"; })) ==
      "spec.attn:1:11: error[program.name]: \"my kernel\" is not a name of letters, digits and underscores\n"
      "  fix: kernels and files are named after the program");
}

TEST_CASE("there must be heads") {
  CHECK(complaint(with_info([](ProgramInfo& info) { info.heads = 0; })) ==
        "spec.attn:1:11: error[program.heads]: heads is 0; it must lie between 1 and 65535");
}

TEST_CASE("kv_heads must divide heads") {
  const std::string wanted = "which does not divide heads (4)\n  fix: use one of 1, 2, 4";
  CHECK(complaint(with_info([](ProgramInfo& info) { info.kv_heads = 3; })) ==
        "spec.attn:1:11: error[program.kv-heads]: kv_heads is 3, " + wanted);
  CHECK(complaint(with_info([](ProgramInfo& info) { info.kv_heads = 0; })) ==
        "spec.attn:1:11: error[program.kv-heads]: kv_heads is 0, " + wanted);
}

TEST_CASE("head dims are multiples of 8 up to 576") {
  const std::string head_dim = "spec.attn:1:11: error[program.head-dim]: head_dim is ";
  const std::string rule = "; it must be a multiple of 8 between 8 and 576\n  fix: ";
  const auto of = [](int dim) {
    return complaint(with_info([&](ProgramInfo& info) { info.head_dim = dim; }));
  };
  CHECK(of(8) == "");
  CHECK(of(576) == "");
  CHECK(of(100) == head_dim + "100" + rule + "pad the tensors to 104");
  CHECK(of(584) == head_dim + "584" + rule + "use 576");
  CHECK(of(0) == head_dim + "0" + rule + "use 8");
  CHECK(of(-8) == head_dim + "-8" + rule + "use 8");
  CHECK(complaint(with_info([](ProgramInfo& info) { info.v_head_dim = 63; })) ==
        "spec.attn:1:11: error[program.head-dim]: v_head_dim is 63" + rule + "pad the tensors to 64");
}

TEST_CASE("attention runs in a floating-point type") {
  CHECK(complaint(with_info([](ProgramInfo& info) { info.dtype = DType::i32; })) ==
        "spec.attn:1:11: error[program.dtype]: dtype is i32; attention runs in f16, bf16 or f32");
}

TEST_CASE("there is one query, one key and one value") {
  TensorInfo second = TestProgram{}.build().tensor({0});
  second.name = "q2";
  CHECK(complaint(with_tensor(second)) ==
        "spec.attn:1:11: error[program.input]: the program has 2 query tensors; it needs exactly one");
  CHECK(verify(Graph(TestProgram{}.info)).size() >= 3);
}

TEST_CASE("query, key and value have the program's dtype and their shape") {
  Graph graph(TestProgram{}.info);
  const std::vector<Extent> shape{{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::head_dim}};
  graph.add_tensor({"q", DType::f32, TensorRole::query, shape, false, {}, at(2, 3)});
  graph.add_tensor({"k", DType::f16, TensorRole::key, shape, false, {}, at(2, 4)});
  graph.add_tensor({"v", DType::f16, TensorRole::value, {}, false, {}, at(2, 5)});
  CHECK(complaint(graph) ==
        "spec.attn:2:3: error[tensor.dtype]: query \"q\" is f32, but the program is f16\n"
        "spec.attn:2:3: error[tensor.shape]: query \"q\" must have shape [batch, heads, sq, head_dim]\n"
        "spec.attn:2:5: error[tensor.shape]: value \"v\" must have shape [batch, kv_heads, skv, v_head_dim]");
}

TEST_CASE("tensor names are unique, and not those of outputs, indices or sizes") {
  for (std::string name : {"q", "lse", "a b", "", "x", "j", "skv"}) {
    TensorInfo tensor = slope();
    tensor.name = name;
    CHECK(complaint(with_tensor(tensor)) ==
          "spec.attn:3:9: error[tensor.name]: \"" + name +
              "\" is taken, or not a name of letters, digits and underscores");
  }
}

TEST_CASE("captured tensors have few dimensions, and none is empty") {
  TensorInfo tensor = slope();
  tensor.shape = {{std::int64_t{0}}};
  CHECK(complaint(with_tensor(tensor)) ==
        "spec.attn:3:9: error[tensor.extent]: \"slope\" has a dimension of 0; it must lie between 1 and "
        "2147483647");
  tensor.shape.assign(9, {std::int64_t{1}});
  CHECK(complaint(with_tensor(tensor)) ==
        "spec.attn:3:9: error[tensor.rank]: \"slope\" has 9 dimensions; the limit is 8");
}

TEST_CASE("a constant table has a value for each element") {
  TensorInfo table{
      "table", DType::f32, TensorRole::constant, {{Size::head_dim}}, false, std::vector<double>(63), {}};
  CHECK(complaint(with_tensor(table)) ==
        "spec.attn:3:9: error[tensor.values]: constant \"table\" has 63 values for its shape");
  table.values.push_back(1);
  CHECK(complaint(with_tensor(table)) == "");
}

TEST_CASE("a program is small enough to handle") {
  const TestProgram program = with_score([](Graph& graph, NodeId x) {
    for (int k = 0; k < 5000; ++k) x = graph.apply(ScalarOp::neg, {x});
    return x;
  });
  CHECK(complaint(program) ==
        "spec.attn:1:11: error[program.too-large]: the program has 5010 operations; the limit is 4096\n"
        "  fix: put tables into captured tensors");
}

TEST_CASE("operations have the operands they need") {
  CHECK(complaint(with_score([](Graph& graph, NodeId x) {
          return graph.add(Apply{ScalarOp::add}, {x}, at(4, 9));
        })) == "spec.attn:4:9: error[expression.arity]: an operation has 1 operands; it needs 2");
}

TEST_CASE("operands have the types of the table") {
  CHECK(complaint(with_score([](Graph& graph, NodeId x) {
          return graph.add(Apply{ScalarOp::add}, {x, graph.index(Axis::i)}, at(4, 9));
        })) == "spec.attn:4:9: error[expression.type]: operand 2 of add is i32; it must be f32");
}

TEST_CASE("a score is a number and a mask is a truth value") {
  CHECK(complaint(with_score([](Graph& graph, NodeId x) {
          return graph.add(Apply{ScalarOp::gt}, {x, graph.constant(0)}, at(4, 9));
        })) == "spec.attn:4:9: error[expression.type]: a score expression is bool; it must be f32");
  TestProgram program;
  program.mask = [](Graph& graph, NodeId) { return graph.add(Index{Axis::i}, {}, at(5, 9)); };
  CHECK(complaint(program) ==
        "spec.attn:5:9: error[expression.type]: a mask expression is i32; it must be bool");
}

TEST_CASE("constants are finite and fit their type") {
  const auto said = [](double value, ValueType type) {
    return complaint(with_score([&](Graph& graph, NodeId x) {
      NodeId constant = graph.add_like({Constant{value}, type, {}, at(4, 9)}, {});
      if (type == ValueType::i32) constant = graph.apply(ScalarOp::to_f32, {constant});
      return graph.apply(ScalarOp::mul, {x, constant});
    }));
  };
  const std::string start = "spec.attn:4:9: error[expression.constant]: ";
  CHECK(said(std::numeric_limits<double>::infinity(), ValueType::f32) == start + "inf is not a finite f32");
  CHECK(said(1e39, ValueType::f32) == start + "1e+39 is not a finite f32");
  CHECK(said(0.5, ValueType::i32) == start + "0.5 is not a finite i32");
  CHECK(said(3e9, ValueType::i32) == start + "3000000000 is not a finite i32");
  CHECK(said(-7, ValueType::i32) == "");
}

TEST_CASE("integers are not divided by zero") {
  TestProgram program;
  ScalarOp op = ScalarOp::idiv;
  program.mask = [&](Graph& graph, NodeId) {
    const NodeId zero = graph.constant(0, ValueType::i32);
    return graph.apply(ScalarOp::ieq, {graph.add(Apply{op}, {graph.index(Axis::i), zero}, at(5, 9)), zero});
  };
  CHECK(complaint(program) == "spec.attn:5:9: error[expression.division]: division by zero");
  op = ScalarOp::imod;
  CHECK(complaint(program) == "spec.attn:5:9: error[expression.division]: remainder by zero");
}

TEST_CASE("captured tensors are indexed once per dimension, with integers") {
  TestProgram program = with_tensor(slope());
  program.score = [](Graph& graph, NodeId x) {
    const NodeId h = graph.index(Axis::h);
    return graph.apply(ScalarOp::mul, {x, graph.add(Gather{{3}}, {h, h}, at(4, 9))});
  };
  CHECK(complaint(program) ==
        "spec.attn:4:9: error[gather.rank]: \"slope\" has 1 dimensions, but 2 indices are given");
  program.score = [](Graph& graph, NodeId x) {
    return graph.apply(ScalarOp::mul, {x, graph.add(Gather{{3}}, {x}, at(4, 9))});
  };
  CHECK(complaint(program) ==
        "spec.attn:4:9: error[gather.index]: index 1 of \"slope\" is f32; it must be i32\n"
        "  fix: round with to_i32(...)");
  program.score = [](Graph& graph, NodeId x) {
    const NodeId h = graph.index(Axis::h);
    return graph.apply(ScalarOp::mul, {x, graph.add(Gather{{0}}, {h, h, h, h}, at(4, 9))});
  };
  CHECK(complaint(program) ==
        "spec.attn:4:9: error[gather.tensor]: \"q\" is not a captured tensor and cannot be indexed");
}

TEST_CASE("rotary pairs are taken along d, an even number inside the head dim") {
  const auto said = [](int count) {
    TestProgram program;
    program.query = [&](Graph& graph, NodeId x) {
      return graph.add(Partner{RotaryPairs::half, count}, {x}, at(2, 9));
    };
    return complaint(program);
  };
  const std::string fix = "\n  fix: rotate a part of the head dim that has whole pairs";
  for (int count : {0, -2, 31, 66})
    CHECK(said(count) == "spec.attn:2:9: error[rope.count]: " + std::to_string(count) +
                             " elements are paired; it must be an even number between 2 and 64" + fix);
  CHECK(said(32) == "");
  TestProgram program;
  program.key = [](Graph& graph, NodeId x) {
    const NodeId j = graph.apply(ScalarOp::to_f32, {graph.index(Axis::j)});
    return graph.apply(ScalarOp::mul, {x, graph.add(Partner{RotaryPairs::half, 64}, {j}, at(2, 9))});
  };
  CHECK(complaint(program) ==
        "spec.attn:2:9: error[rope.axis]: pairs are taken along d, but the value does not depend on d");
}

}  // namespace
}  // namespace attnfuse
