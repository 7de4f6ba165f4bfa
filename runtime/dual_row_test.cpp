#include "runtime/dual_row.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "runtime/test_program.h"

using namespace attnfuse;
using namespace attnfuse::testing;

TEST_CASE("tangents are what finite differences of the table's values find") {
  std::mt19937 random(17);
  std::uniform_real_distribution<double> number(0.3, 2);
  for (const ScalarOpInfo& op : scalar_ops()) {
    if (op.result != ValueType::f32 || op.op == ScalarOp::philox) continue;
    CAPTURE(op.name);
    const auto arity = std::size_t(op.arity);
    for (int n = 0; n < 20; ++n) {
      double x[kMaxArity], tangents[kMaxArity], above[kMaxArity], below[kMaxArity];
      for (std::size_t k = 0; k < arity; ++k) {
        const bool moves = op.operand[k] == ValueType::f32;
        x[k] = moves ? number(random) * (op.op == ScalarOp::abs && n % 2 == 0 ? -1 : 1) : double(n % 2);
        tangents[k] = moves ? number(random) - 1 : 0;
        above[k] = x[k] + 1e-6 * tangents[k];
        below[k] = x[k] - 1e-6 * tangents[k];
      }
      const double difference = (op.value({above, arity}) - op.value({below, arity})) / 2e-6;
      CHECK(tangent(op.op, {x, arity}, {tangents, arity}) == doctest::Approx(difference).epsilon(1e-7));
    }
  }
}

TEST_CASE("where a derivative does not exist, tangents are what differentiate promises") {
  const auto of = [](ScalarOp op, std::vector<double> x, std::vector<double> t) { return tangent(op, x, t); };
  CHECK(of(ScalarOp::max, {1, 1}, {3, 5}) == 3);
  CHECK(of(ScalarOp::min, {1, 1}, {3, 5}) == 3);
  CHECK(of(ScalarOp::abs, {0}, {3}) == 0);
  CHECK(of(ScalarOp::floor, {2}, {3}) == 0);
  CHECK(of(ScalarOp::lt, {2, 2}, {3, 0}) == 0);
}

TEST_CASE("what does not change counts for nothing, however steep the operation is") {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto of = [](ScalarOp op, std::vector<double> x, std::vector<double> t) { return tangent(op, x, t); };
  CHECK(of(ScalarOp::mul, {2, infinity}, {0, 3}) == 6);
  CHECK(of(ScalarOp::sqrt, {0}, {0}) == 0);
}

namespace {

// Rows of 8 elements.
struct RowOfEight {
  Program p{small()};
  SizeValues sizes = size_values(small(), {1, 4, 4, 0, 0, 1});
  CapturedTensors captured{nullptr, nullptr, nullptr};
  std::vector<double> row{0.5, -1, 2, 0.25, 1.5, -0.75, 1, 3};

  // The gradient of the sum of gradients[d] * root[d] by every element of q, pulled and by finite
  // differences.
  void check(NodeId root, const std::vector<double>& gradients) const {
    DualRow dual(p.graph, root, Axis::d, 8, sizes, captured);
    Position at;
    at[Axis::i] = 2;
    const auto value_of = [&](const std::vector<double>& x) {
      const std::span<const double> values = dual(at, [&](NodeId) { return std::span<const double>(x); });
      double sum = 0;
      for (std::size_t d = 0; d < 8; ++d) sum += gradients[d] * values[d];
      return sum;
    };
    value_of(row);
    std::vector<double> pulled(8);
    dual.pull(gradients,
              [&](const DualRow::Source&, std::size_t x, double gradient) { pulled[x] += gradient; });
    for (std::size_t d = 0; d < 8; ++d) {
      std::vector<double> above = row, below = row;
      above[d] += 1e-6;
      below[d] -= 1e-6;
      CHECK(pulled[d] == doctest::Approx((value_of(above) - value_of(below)) / 2e-6).epsilon(1e-7));
    }
  }
};

}  // namespace

TEST_CASE("rows are differentiated element by element, through pairs and through sums along d") {
  const std::vector<double> gradients{1, -2, 0, 0.5, 3, 0, -1, 0.25};
  for (RotaryPairs pairs : {RotaryPairs::half, RotaryPairs::interleaved}) {
    RowOfEight row;
    Graph& g = row.p.graph;
    const NodeId partner = g.add(Partner{pairs, 6}, {row.p.q});
    row.check(row.p.op(ScalarOp::add, row.p.op(ScalarOp::mul, partner, row.p.q), partner), gradients);
  }
  RowOfEight row;
  Graph& g = row.p.graph;
  row.check(g.apply(ScalarOp::tanh, {row.p.q}), gradients);
  const NodeId sum = g.add(Reduce{ReduceOp::sum}, {row.p.op(ScalarOp::mul, row.p.q, row.p.q)});
  row.check(row.p.op(ScalarOp::mul, row.p.q, g.apply(ScalarOp::rsqrt, {sum})), gradients);
  row.check(row.p.op(ScalarOp::mul, row.p.q, g.add(Reduce{ReduceOp::max}, {row.p.q})), gradients);
}

TEST_CASE("elements without a gradient are left out, whatever they hold") {
  RowOfEight row;
  row.row[2] = std::numeric_limits<double>::quiet_NaN();
  DualRow dual(row.p.graph, row.p.op(ScalarOp::mul, row.p.q, row.p.q), Axis::d, 8, row.sizes, row.captured);
  dual({}, [&](NodeId) { return std::span<const double>(row.row); });
  std::vector<double> pulled(8);
  dual.pull(std::vector<double>{1, 1, 0, 1, 1, 1, 1, 1},
            [&](const DualRow::Source&, std::size_t x, double gradient) { pulled[x] += gradient; });
  CHECK(pulled == std::vector<double>{1, -2, 0, 0.5, 3, -1.5, 2, 6});
}
