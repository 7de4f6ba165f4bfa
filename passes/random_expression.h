// Random expressions for property tests of passes. Every f32 value stays moderate and is continuous in its
// operands, so that rounding differences stay small.
#pragma once

#include <random>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

class RandomExpression {
 public:
  RandomExpression(Graph& graph, std::uint32_t seed) : graph_(&graph), random_(seed) {}

  // Leaves of each type; expressions are built from these and small constants.
  std::vector<NodeId> i32_leaves, f32_leaves, boolean_leaves;

  int below(int n) { return int(random_() % std::uint32_t(n)); }
  bool chance(int percent) { return below(100) < percent; }

  NodeId i32(int depth) {
    using Op = ScalarOp;
    if (depth <= 0 || chance(15))
      return chance(30) ? graph_->constant(below(13) - 4, ValueType::i32) : pick(i32_leaves);
    switch (below(10)) {
      case 0:
      case 1:
        return apply(Op::iadd, {i32(depth - 1), i32(depth - 1)});
      case 2:
      case 3:
        return apply(Op::isub, {i32(depth - 1), i32(depth - 1)});
      case 4:
        return apply(Op::imul, {i32(depth - 1), graph_->constant(below(7) - 3, ValueType::i32)});
      case 5:
        return apply(Op::idiv, {i32(depth - 1), graph_->constant(below(9) - 2, ValueType::i32)});
      case 6:
        return apply(Op::imod, {i32(depth - 1), graph_->constant(below(9) - 2, ValueType::i32)});
      case 7:
        return apply(chance(50) ? Op::imin : Op::imax, {i32(depth - 1), i32(depth - 1)});
      case 8:
        return chance(50) ? apply(Op::ineg, {i32(depth - 1)}) : bits(depth);
      default:
        return apply(Op::iselect, {boolean(depth - 1), i32(depth - 1), i32(depth - 1)});
    }
  }

  NodeId bits(int depth) {
    using Op = ScalarOp;
    constexpr Op kBits[] = {Op::bit_and, Op::bit_or, Op::bit_xor, Op::shift_left, Op::shift_right};
    const int op = below(6);
    if (op == 5) return apply(Op::bit_not, {i32(depth - 1)});
    const int other = op < 3 ? below(9) - 1 : below(3);
    return apply(kBits[op], {i32(depth - 1), graph_->constant(other, ValueType::i32)});
  }

  NodeId boolean(int depth) {
    using Op = ScalarOp;
    constexpr Op kIntegers[] = {Op::ilt, Op::ile, Op::igt, Op::ige, Op::ieq, Op::ine};
    constexpr Op kFloats[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    if (!boolean_leaves.empty() && chance(10)) return pick(boolean_leaves);
    if (chance(3)) return graph_->constant(below(2), ValueType::boolean);
    if (depth <= 1 || chance(40)) {
      const int op = below(6);
      if (chance(75)) return apply(kIntegers[op], {i32(depth), i32(depth - 1)});
      const NodeId right =
          chance(50) ? apply(Op::to_f32, {i32(depth - 1)}) : graph_->constant(below(20) / 2.0 - 3);
      return apply(kFloats[op], {apply(Op::to_f32, {i32(depth)}), right});
    }
    switch (below(3)) {
      case 0:
        return apply(Op::logical_and, {boolean(depth - 1), boolean(depth - 1)});
      case 1:
        return apply(Op::logical_or, {boolean(depth - 1), boolean(depth - 1)});
      default:
        return apply(Op::logical_not, {boolean(depth - 1)});
    }
  }

  NodeId f32(int depth) {
    using Op = ScalarOp;
    if (depth <= 0 || chance(15))
      return chance(30) ? graph_->constant(below(17) / 4.0 - 2) : pick(f32_leaves);
    switch (below(11)) {
      case 0:
        return apply(Op::add, {f32(depth - 1), f32(depth - 1)});
      case 1:
        return apply(Op::sub, {f32(depth - 1), f32(depth - 1)});
      case 2:
        return apply(Op::mul, {f32(depth - 1), f32(depth - 1)});
      case 3:
        return apply(Op::mul, {f32(depth - 1), graph_->constant(below(17) / 4.0 - 2)});
      case 4:
        return apply(Op::div, {f32(depth - 1), graph_->constant(below(5) + 0.75)});
      case 5:
        return apply(Op::neg, {f32(depth - 1)});
      case 6:
        return apply(Op::abs, {f32(depth - 1)});
      case 7:
        return apply(chance(50) ? Op::min : Op::max, {f32(depth - 1), f32(depth - 1)});
      case 8:
        return apply(chance(50) ? Op::tanh : Op::cos, {f32(depth - 1)});
      case 9:
        return apply(Op::to_f32, {i32(depth - 1)});
      default:
        return apply(Op::select, {boolean(depth - 1), f32(depth - 1), f32(depth - 1)});
    }
  }

 private:
  NodeId apply(ScalarOp op, std::initializer_list<NodeId> operands) { return graph_->apply(op, operands); }
  NodeId pick(const std::vector<NodeId>& ids) { return ids[std::size_t(below(int(ids.size())))]; }

  Graph* graph_;
  std::mt19937 random_;
};

}  // namespace attnfuse
