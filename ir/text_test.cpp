#include "ir/text.h"

#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "ir/analysis.h"
#include "ir/test_program.h"

namespace attnfuse {
namespace {

TEST_CASE("constants print the shortest text that reads back") {
  CHECK(constant_text(0.125, ValueType::f32) == "0.125");
  CHECK(constant_text(-2, ValueType::f32) == "-2.0");
  CHECK(constant_text(1e30, ValueType::f32) == "1e+30");
  CHECK(constant_text(-7, ValueType::i32) == "-7");
  CHECK(constant_text(1, ValueType::boolean) == "true");
  CHECK(std::stod(constant_text(1.0 / 3, ValueType::f32)) == 1.0 / 3);
}

TEST_CASE("a graph prints one line for each tensor and node") {
  TestProgram program;
  program.captured = {
      {"slope", DType::f32, TensorRole::captured, {{Size::heads}, {std::int64_t{3}}}, true, {}, {}}};
  program.score = [](Graph& graph, NodeId x) {
    const NodeId h = graph.index(Axis::h);
    return graph.apply(ScalarOp::mul, {x, graph.add(Gather{{3}}, {h, graph.constant(2, ValueType::i32)})});
  };
  program.query = [](Graph& graph, NodeId x) {
    return graph.add(Partner{RotaryPairs::interleaved, 32}, {x});
  };
  CHECK(print(program.build()) ==
        "attention small heads 4 kv_heads 2 head_dim 64 v_head_dim 64 dtype f16\n"
        "query q : f16 [batch, heads, sq, head_dim]\n"
        "key k : f16 [batch, kv_heads, skv, head_dim]\n"
        "value v : f16 [batch, kv_heads, skv, v_head_dim]\n"
        "captured slope : f32 [heads, 3] grad\n"
        "%0 = input q : f32 {b,h,i,d}\n"
        "%1 = partner interleaved 32 %0 : f32 {b,h,i,d}\n"
        "%2 = input k : f32 {b,g,j,d}\n"
        "%3 = scores %1 %2 : f32 {b,h,i,j}\n"
        "%4 = index h : i32 {h}\n"
        "%5 = constant 2 : i32 {}\n"
        "%6 = gather slope %4 %5 : f32 {h}\n"
        "%7 = mul %3 %6 : f32 {b,h,i,j}\n"
        "%8 = constant true : bool {}\n"
        "%9 = normalize softmax %7 %8 : f32 {b,h,i,j}\n"
        "%10 = input v : f32 {b,g,j,d}\n"
        "%11 = attend %9 %10 : f32 {b,h,i,d}\n"
        "%12 = output o %11 : f32 {b,h,i,d}\n"
        "%13 = logsumexp %9 : f32 {b,h,i}\n"
        "%14 = output lse %13 : f32 {b,h,i}\n");
}

TEST_CASE("a picture colours nodes by where they are computed") {
  Graph graph({"p", 1, 1, 8, 8, DType::f32, {}});
  const NodeId d = graph.index(Axis::d);
  graph.apply(ScalarOp::isub, {d, graph.index(Axis::j)});
  CHECK(dot(graph) ==
        "digraph \"p\" {\n"
        "  node [shape=box, style=filled, fontname=\"monospace\"];\n"
        "  n0 [label=\"%0 index d\\ni32 {d}\", tooltip=\"table\", fillcolor=\"#fff2ae\"];\n"
        "  n1 [label=\"%1 index j\\ni32 {j}\", tooltip=\"per key column\", fillcolor=\"#fdcdac\"];\n"
        "  n2 [label=\"%2 isub\\ni32 {j,d}\", tooltip=\"key or value tile\", fillcolor=\"#fdb462\"];\n"
        "  n0 -> n2 [label=\"0\"];\n"
        "  n1 -> n2 [label=\"1\"];\n"
        "}\n");
}

TEST_CASE("expressions print with the parentheses they need and no others") {
  Graph graph;
  const TensorId slope =
      graph.add_tensor({"slope", DType::f32, TensorRole::captured, {{Size::heads}}, false, {}, {}});
  const NodeId x = graph.variable("score", ValueType::f32);
  const NodeId y = graph.variable("y", ValueType::f32);
  const NodeId i = graph.index(Axis::i), j = graph.index(Axis::j), skv = graph.add(SizeOf{Size::skv});
  const NodeId four = graph.constant(4, ValueType::i32), minus = graph.constant(-4, ValueType::i32);
  const auto op = [&](ScalarOp kind, std::initializer_list<NodeId> operands) {
    return graph.apply(kind, operands);
  };
  const auto text = [&](NodeId id) { return expression_text(graph, id, x); };
  using enum ScalarOp;

  CHECK(text(op(sub, {op(sub, {x, y}), y})) == "x - y - y");
  CHECK(text(op(sub, {x, op(sub, {y, y})})) == "x - (y - y)");
  CHECK(text(op(add, {x, op(mul, {y, y})})) == "x + y * y");
  CHECK(text(op(mul, {op(add, {x, y}), y})) == "(x + y) * y");
  CHECK(text(op(neg, {op(neg, {x})})) == "-(-x)");
  CHECK(text(op(neg, {op(mul, {x, y})})) == "-(x * y)");
  CHECK(text(op(mul, {op(neg, {x}), y})) == "-x * y");
  CHECK(text(op(tanh, {op(div, {x, graph.constant(50)})})) == "tanh(x / 50.0)");
  CHECK(text(op(isub, {i, minus})) == "i - -4");
  CHECK(text(op(ineg, {minus})) == "-(-4)");
  CHECK(text(op(imul, {op(idiv, {i, four}), op(imod, {j, skv})})) == "i // 4 * (j % skv)");
  CHECK(text(op(idiv, {i, op(idiv, {j, four})})) == "i // (j // 4)");
  CHECK(text(op(logical_or, {op(logical_and, {op(ilt, {i, j}), op(ige, {i, four})}), op(ieq, {i, j})})) ==
        "i < j && i >= 4 || i == j");
  CHECK(text(op(logical_and,
                {op(logical_not, {op(ilt, {i, j})}), op(logical_or, {op(ine, {i, j}), op(ieq, {i, j})})})) ==
        "!(i < j) && (i != j || i == j)");
  CHECK(text(op(select, {op(gt, {x, y}), x, op(to_f32, {op(isub, {j, i})})})) ==
        "select(x > y, x, to_f32(j - i))");
  CHECK(text(graph.add(Gather{slope}, {op(iadd, {graph.index(Axis::g), four})})) == "slope[h + 4]");
  CHECK(text(op(imin, {i, four})) == "min(i, 4)");
  CHECK(text(op(bool_to_f32, {op(ilt, {i, j})})) == "to_f32(i < j)");
}

// Reads what expression_text writes, knowing only the usual precedences, and computes as it goes.
class Reader {
 public:
  Reader(std::string_view text, double x, double y) : text_(text), x_(x), y_(y) {}
  double read() { return sum(); }

 private:
  bool eat(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  double sum() {
    double value = product();
    while (true) {
      if (eat('+'))
        value += product();
      else if (eat('-'))
        value -= product();
      else
        return value;
    }
  }
  double product() {
    double value = unary();
    while (true) {
      if (eat('*'))
        value *= unary();
      else if (eat('/'))
        value /= unary();
      else
        return value;
    }
  }
  double unary() { return eat('-') ? -unary() : primary(); }
  double primary() {
    if (eat('x')) return x_;
    if (eat('y')) return y_;
    if (eat('(')) {
      const double value = sum();
      REQUIRE(eat(')'));
      return value;
    }
    std::size_t used = 0;
    const double value = std::stod(std::string(text_.substr(at_)), &used);
    at_ += used;
    return value;
  }
  std::string_view text_;
  std::size_t at_ = 0;
  double x_, y_;
};

TEST_CASE("a random expression, read back by ordinary precedence, has the same value") {
  constexpr unsigned kSeed = 5;
  std::mt19937 engine(kSeed);
  const auto draw = [&](int bound) { return std::uniform_int_distribution(0, bound - 1)(engine); };
  for (int trial = 0; trial < 500; ++trial) {
    Graph graph;
    std::vector<NodeId> nodes{graph.variable("x", ValueType::f32), graph.variable("y", ValueType::f32),
                              graph.constant(-3), graph.constant(0.7)};
    const auto any = [&] { return nodes[std::size_t(draw(int(nodes.size())))]; };
    for (int step = 0; step < 7; ++step) {
      const ScalarOp op = std::vector{ScalarOp::add, ScalarOp::sub, ScalarOp::mul, ScalarOp::div,
                                      ScalarOp::neg}[std::size_t(draw(5))];
      nodes.push_back(op == ScalarOp::neg ? graph.apply(op, {any()}) : graph.apply(op, {any(), any()}));
    }
    const double x = 1.25, y = -0.6;
    EvaluateContext context;
    context.leaf = [&](NodeId id) { return id.value == 0 ? x : y; };
    const double wanted = evaluate(graph, nodes.back(), context);
    const std::string text = expression_text(graph, nodes.back());
    const double got = Reader(text, x, y).read();
    CAPTURE(kSeed);
    CAPTURE(text);
    if (std::isnan(wanted))
      CHECK(std::isnan(got));
    else
      CHECK(got == wanted);
  }
}

TEST_CASE("LaTeX needs no parentheses where braces delimit") {
  Graph graph;
  const TensorId slope =
      graph.add_tensor({"head_slope", DType::f32, TensorRole::captured, {{Size::heads}}, false, {}, {}});
  const NodeId x = graph.variable("x", ValueType::f32);
  const NodeId i = graph.index(Axis::i), j = graph.index(Axis::j);
  using enum ScalarOp;
  const NodeId distance = graph.apply(to_f32, {graph.apply(isub, {j, i})});
  const NodeId gather = graph.add(Gather{slope}, {graph.index(Axis::h)});
  CHECK(latex(graph, graph.apply(add, {x, graph.apply(mul, {gather, distance})})) ==
        "\\mathrm{x} + \\mathrm{head\\_slope}_{h} \\cdot (j - i)");
  const NodeId ratio = graph.apply(div, {graph.apply(add, {x, x}), graph.constant(2)});
  CHECK(latex(graph, graph.apply(mul, {ratio, x})) ==
        "\\frac{\\mathrm{x} + \\mathrm{x}}{2.0} \\cdot \\mathrm{x}");
  CHECK(latex(graph, graph.apply(tanh, {graph.apply(neg, {x})})) == "\\tanh({-\\mathrm{x}})");
}

TEST_CASE("texts of values that are used over and over stay short") {
  Graph graph;
  NodeId x = graph.variable("x", ValueType::f32);
  for (int k = 0; k < 200; ++k) x = graph.apply(ScalarOp::mul, {x, x});
  CHECK(expression_text(graph, x).size() < 200000);
  CHECK(latex(graph, x).size() < 200000);
}

}  // namespace
}  // namespace attnfuse
