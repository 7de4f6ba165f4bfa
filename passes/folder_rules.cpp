// Algebra of the scalar operations, one small function per family.
#include <algorithm>
#include <cmath>

#include "passes/folder.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;
constexpr NodeId kNone{};

// One operation being simplified, and what its operands are.
struct Rule {
  Folder& folder;
  Op op;
  std::span<const NodeId> x;

  std::optional<double> constant(int k) const { return folder.constant_of(x[std::size_t(k)]); }
  bool is(int k, double value) const { return constant(k) == value; }
  NodeId made(Op made_op, std::initializer_list<NodeId> operands) const {
    return folder.apply(made_op, operands);
  }
  NodeId f32(double value) const { return folder.constant(value, ValueType::f32); }
  NodeId i32(double value) const { return folder.i32(value); }
  NodeId truth(bool value) const { return folder.truth(value); }

  bool is_op(NodeId id, Op wanted) const {
    const auto* apply = as<Apply>(folder.graph().node(id));
    return apply && apply->op == wanted;
  }
  NodeId operand(NodeId id, int position) const { return folder.graph().operand(id, position); }
  // The operand of x[k] = wanted(operand, ...), or invalid.
  NodeId under(int k, Op wanted, int position = 0) const {
    const NodeId id = x[std::size_t(k)];
    return is_op(id, wanted) ? operand(id, position) : kNone;
  }
};

// A factor that f32 arithmetic neither flushes nor overflows.
bool is_safe_factor(double value) {
  constexpr double kSmallest = 1e-30, kLargest = 1e30;
  return std::fabs(value) >= kSmallest && std::fabs(value) <= kLargest;
}

bool fits_i32(double value) { return value >= INT32_MIN && value <= INT32_MAX; }

// -- f32 ----------------------------------------------------------------------------------------

NodeId sum(const Rule& r) {
  if (r.op == Op::add) {
    if (r.is(1, 0)) return r.x[0];
    if (const NodeId y = r.under(1, Op::neg); y.valid()) return r.made(Op::sub, {r.x[0], y});
    if (const NodeId y = r.under(0, Op::neg); y.valid()) return r.made(Op::sub, {r.x[1], y});
    return kNone;
  }
  if (r.is(1, 0)) return r.x[0];
  if (r.is(0, 0)) return r.made(Op::neg, {r.x[1]});
  if (const NodeId y = r.under(1, Op::neg); y.valid()) return r.made(Op::add, {r.x[0], y});
  return kNone;
}

NodeId product(const Rule& r) {
  const NodeId negated = r.under(0, Op::neg);
  if (const NodeId other = r.under(1, Op::neg); other.valid() && negated.valid())
    return r.made(Op::mul, {negated, other});
  const std::optional<double> factor = r.constant(1);
  if (!factor) return kNone;
  if (*factor == 1) return r.x[0];
  if (*factor == -1) return r.made(Op::neg, {r.x[0]});
  if (negated.valid()) return r.made(Op::mul, {negated, r.f32(-*factor)});
  const NodeId inner = r.under(0, Op::mul);
  const std::optional<double> inner_factor =
      inner.valid() ? r.folder.constant_of(r.under(0, Op::mul, 1)) : std::nullopt;
  if (inner_factor && is_safe_factor(*inner_factor * *factor))
    return r.made(Op::mul, {inner, r.f32(*inner_factor * *factor)});
  return kNone;
}

// May be a whole number by construction. The quotient of two whole numbers can be whole itself, and a floor
// of it must not see a reciprocal's rounding.
bool may_be_whole(const Graph& graph, NodeId id, int depth = 8) {
  const Node& node = graph.node(id);
  if (const auto* constant = as<Constant>(node)) return constant->value == std::floor(constant->value);
  if (as<Gather>(node)) return true;
  const auto* apply = as<Apply>(node);
  if (!apply || depth == 0) return depth == 0;
  constexpr Op kPreserving[] = {Op::add, Op::sub, Op::mul,   Op::div,    Op::neg,    Op::abs,
                                Op::min, Op::max, Op::floor, Op::to_f32, Op::select, Op::bool_to_f32};
  if (std::ranges::find(kPreserving, apply->op) == std::end(kPreserving)) return false;
  if (apply->op == Op::floor || apply->op == Op::to_f32 || apply->op == Op::bool_to_f32) return true;
  for (NodeId operand : graph.operands(id))
    if (graph.node(operand).type == ValueType::f32 && !may_be_whole(graph, operand, depth - 1)) return false;
  return true;
}

NodeId quotient(const Rule& r) {
  const std::optional<double> divisor = r.constant(1);
  if (!divisor || !is_safe_factor(*divisor)) return kNone;
  int exponent = 0;
  const bool is_exact = std::fabs(std::frexp(*divisor, &exponent)) == 0.5;
  if (!is_exact && may_be_whole(r.folder.graph(), r.x[0])) return kNone;
  return r.made(Op::mul, {r.x[0], r.f32(1 / *divisor)});
}

NodeId negation(const Rule& r) {
  if (const NodeId y = r.under(0, Op::neg); y.valid()) return y;
  if (const NodeId y = r.under(0, Op::sub); y.valid()) return r.made(Op::sub, {r.under(0, Op::sub, 1), y});
  if (const NodeId y = r.under(0, Op::mul); y.valid())
    if (const auto factor = r.folder.constant_of(r.under(0, Op::mul, 1)))
      return r.made(Op::mul, {y, r.f32(-*factor)});
  return kNone;
}

NodeId absolute(const Rule& r) {
  if (const NodeId y = r.under(0, Op::neg); y.valid()) return r.made(Op::abs, {y});
  return r.under(0, Op::abs).valid() ? r.x[0] : kNone;
}

NodeId rounding(const Rule& r) {
  const bool is_whole = r.under(0, Op::floor).valid() || r.under(0, Op::to_f32).valid();
  return is_whole ? r.x[0] : kNone;
}

NodeId conversion(const Rule& r) {
  if (const NodeId y = r.under(0, Op::to_f32); y.valid()) return y;
  if (const NodeId y = r.under(0, Op::floor); y.valid()) return r.made(Op::to_i32, {y});
  return kNone;
}

// f32 comparisons of integers are i32 comparisons, which classification can solve.
NodeId f32_comparison(const Rule& r) {
  struct Row {
    Op op, integer;
    double (*bound)(double);  // the integer that compares like a fractional constant
  };
  constexpr double (*kUp)(double) = [](double x) { return std::ceil(x); };
  constexpr double (*kDown)(double) = [](double x) { return std::floor(x); };
  constexpr Row kRows[] = {{Op::lt, Op::ilt, kUp}, {Op::le, Op::ile, kDown}, {Op::gt, Op::igt, kDown},
                           {Op::ge, Op::ige, kUp}, {Op::eq, Op::ieq, kUp},   {Op::ne, Op::ine, kUp}};
  const NodeId left = r.under(0, Op::to_f32);
  if (!left.valid()) return kNone;
  for (const Row& row : kRows) {
    if (row.op != r.op) continue;
    if (const NodeId right = r.under(1, Op::to_f32); right.valid()) return r.made(row.integer, {left, right});
    const std::optional<double> value = r.constant(1);
    if (!value) return kNone;
    const double bound = row.bound(*value);
    if (!fits_i32(bound)) return kNone;
    if (bound != *value && (r.op == Op::eq || r.op == Op::ne)) return r.truth(r.op == Op::ne);
    return r.made(row.integer, {left, r.i32(bound)});
  }
  return kNone;
}

// -- i32 ----------------------------------------------------------------------------------------

// x = base + offset with a constant offset, 0 when there is none.
std::pair<NodeId, double> split_offset(const Rule& r, NodeId id) {
  for (const auto& [op, sign] : {std::pair(Op::iadd, 1.0), std::pair(Op::isub, -1.0)})
    if (r.is_op(id, op))
      if (const auto offset = r.folder.constant_of(r.operand(id, 1)))
        return {r.operand(id, 0), sign * *offset};
  return {id, 0};
}

// x + offset and x - offset in the form with a positive constant, constants of x collected.
NodeId with_offset(const Rule& r, NodeId id, double offset) {
  const auto [base, inner] = split_offset(r, id);
  const double total = inner + offset;
  if (inner != 0 && fits_i32(total)) return total == 0 ? base : r.made(Op::iadd, {base, r.i32(total)});
  if (offset == 0) return id;
  if (r.op == Op::iadd ? offset > 0 : offset < 0) return kNone;
  return fits_i32(-offset) ? r.made(r.op == Op::iadd ? Op::isub : Op::iadd, {id, r.i32(std::fabs(offset))})
                           : kNone;
}

NodeId integer_sum(const Rule& r) {
  if (const auto offset = r.constant(1)) return with_offset(r, r.x[0], *offset);
  for (int k : {0, 1}) {
    const NodeId other = r.x[std::size_t(1 - k)];
    if (const NodeId y = r.under(k, Op::ineg); y.valid()) return r.made(Op::isub, {other, y});
    if (r.under(k, Op::isub, 1) == other && other.valid()) return r.under(k, Op::isub);
  }
  return kNone;
}

NodeId integer_difference(const Rule& r) {
  if (const auto offset = r.constant(1)) return with_offset(r, r.x[0], -*offset);
  if (r.x[0] == r.x[1]) return r.i32(0);
  if (r.is(0, 0)) return r.made(Op::ineg, {r.x[1]});
  if (const NodeId y = r.under(1, Op::ineg); y.valid()) return r.made(Op::iadd, {r.x[0], y});
  for (int k : {0, 1})
    if (r.under(0, Op::iadd, k) == r.x[1]) return r.under(0, Op::iadd, 1 - k);
  return kNone;
}

NodeId integer_product(const Rule& r) {
  const std::optional<double> factor = r.constant(1);
  if (!factor) return kNone;
  if (*factor == 0) return r.i32(0);
  if (*factor == 1) return r.x[0];
  if (*factor == -1) return r.made(Op::ineg, {r.x[0]});
  if (const NodeId inner = r.under(0, Op::imul); inner.valid())
    if (const auto other = r.folder.constant_of(r.under(0, Op::imul, 1)); other && fits_i32(*other * *factor))
      return r.made(Op::imul, {inner, r.i32(*other * *factor)});
  return kNone;
}

NodeId integer_quotient(const Rule& r) {
  const std::optional<double> divisor = r.constant(1);
  if (!divisor) return r.is(0, 0) ? r.i32(0) : kNone;
  if (*divisor == 1) return r.x[0];
  if (*divisor == 0) return r.i32(0);
  if (const NodeId inner = r.under(0, Op::idiv); inner.valid())
    if (const auto other = r.folder.constant_of(r.under(0, Op::idiv, 1)))
      if (*other > 0 && *divisor > 0 && fits_i32(*other * *divisor))
        return r.made(Op::idiv, {inner, r.i32(*other * *divisor)});
  return kNone;
}

NodeId integer_remainder(const Rule& r) {
  const std::optional<double> divisor = r.constant(1);
  if (!divisor) return r.is(0, 0) ? r.i32(0) : kNone;
  if (*divisor == 1 || *divisor == -1 || *divisor == 0) return r.i32(0);
  return r.under(0, Op::imod, 1) == r.x[1] ? r.x[0] : kNone;
}

NodeId integer_negation(const Rule& r) {
  if (const NodeId y = r.under(0, Op::ineg); y.valid()) return y;
  if (const NodeId y = r.under(0, Op::isub); y.valid()) return r.made(Op::isub, {r.under(0, Op::isub, 1), y});
  return kNone;
}

// Bit arithmetic that is a quotient or remainder of a power of two: tile bounds know those.
NodeId as_division(const Rule& r) {
  const std::optional<double> number = r.constant(1);
  if (!number) return kNone;
  const auto bits = std::int64_t(*number);
  if (r.op == Op::shift_right) {
    const std::int64_t by = bits & 31;
    return by < 31 ? r.made(Op::idiv, {r.x[0], r.i32(double(std::int64_t(1) << by))}) : kNone;
  }
  const bool is_mask = bits >= 0 && bits < INT32_MAX && (bits & (bits + 1)) == 0;
  return is_mask ? r.made(Op::imod, {r.x[0], r.i32(double(bits + 1))}) : kNone;
}

NodeId same_or_nothing(const Rule& r) { return r.x[0] == r.x[1] ? r.x[0] : kNone; }

NodeId integer_extremum(const Rule& r) {
  if (r.x[0] == r.x[1]) return r.x[0];
  const NodeId inner = r.under(0, r.op);
  if (!inner.valid() || !r.constant(1)) return kNone;
  const NodeId other = r.under(0, r.op, 1);
  return r.folder.constant_of(other) ? r.made(r.op, {inner, r.made(r.op, {other, r.x[1]})}) : kNone;
}

NodeId integer_comparison(const Rule& r) {
  if (r.x[0] == r.x[1]) return r.truth(r.op == Op::ile || r.op == Op::ige || r.op == Op::ieq);
  const std::optional<double> bound = r.constant(1);
  if (!bound) return kNone;
  if (const NodeId y = r.under(0, Op::isub); y.valid() && *bound == 0)
    return r.made(r.op, {y, r.under(0, Op::isub, 1)});
  const auto [base, offset] = split_offset(r, r.x[0]);
  return offset != 0 && fits_i32(*bound - offset) ? r.made(r.op, {base, r.i32(*bound - offset)}) : kNone;
}

// -- boolean --------------------------------------------------------------------------------------

NodeId conjunction(const Rule& r) {
  const double neutral = r.op == Op::logical_and ? 1 : 0;
  if (const auto value = r.constant(1)) return *value == neutral ? r.x[0] : r.x[1];
  if (r.x[0] == r.x[1]) return r.x[0];
  for (int k : {0, 1}) {
    const NodeId other = r.x[std::size_t(1 - k)];
    if (r.under(k, Op::logical_not) == other) return r.truth(neutral == 0);
    for (int position : {0, 1})
      if (r.under(k, r.op, position) == other) return r.x[std::size_t(k)];
  }
  return kNone;
}

// NaN makes not(x < y) differ from x >= y, so only i32 comparisons and equality are turned around.
NodeId logical_negation(const Rule& r) {
  constexpr std::pair<Op, Op> kOpposites[] = {
      {Op::ilt, Op::ige}, {Op::ile, Op::igt}, {Op::ieq, Op::ine}, {Op::eq, Op::ne}};
  if (const NodeId y = r.under(0, Op::logical_not); y.valid()) return y;
  for (const auto& [one, other] : kOpposites) {
    if (r.is_op(r.x[0], one)) return r.made(other, {r.operand(r.x[0], 0), r.operand(r.x[0], 1)});
    if (r.is_op(r.x[0], other)) return r.made(one, {r.operand(r.x[0], 0), r.operand(r.x[0], 1)});
  }
  return kNone;
}

NodeId choice(const Rule& r) {
  if (const auto condition = r.constant(0)) return *condition != 0 ? r.x[1] : r.x[2];
  if (r.x[1] == r.x[2]) return r.x[1];
  if (const NodeId y = r.under(0, Op::logical_not); y.valid()) return r.made(r.op, {y, r.x[2], r.x[1]});
  return kNone;
}

}  // namespace

NodeId simpler(Folder& folder, ScalarOp op, std::span<const NodeId> operands) {
  const Rule rule{folder, op, operands};
  // clang-format off
  switch (op) {
    case Op::add: case Op::sub: return sum(rule);
    case Op::mul: return product(rule);
    case Op::div: return quotient(rule);
    case Op::neg: return negation(rule);
    case Op::abs: return absolute(rule);
    case Op::min: case Op::max: return same_or_nothing(rule);
    case Op::floor: return rounding(rule);
    case Op::exp: case Op::exp2: case Op::log: case Op::log2: case Op::sqrt: case Op::rsqrt: case Op::tanh:
    case Op::sin: case Op::cos: return kNone;
    case Op::iadd: return integer_sum(rule);
    case Op::isub: return integer_difference(rule);
    case Op::imul: return integer_product(rule);
    case Op::idiv: return integer_quotient(rule);
    case Op::imod: return integer_remainder(rule);
    case Op::ineg: return integer_negation(rule);
    case Op::imin: case Op::imax: return integer_extremum(rule);
    case Op::bit_and: case Op::shift_right: return as_division(rule);
    case Op::bit_or: case Op::bit_xor: case Op::bit_not: case Op::shift_left: return kNone;
    case Op::philox: return kNone;
    case Op::lt: case Op::le: case Op::gt: case Op::ge: case Op::eq: case Op::ne: return f32_comparison(rule);
    case Op::ilt: case Op::ile: case Op::igt: case Op::ige: case Op::ieq: case Op::ine:
      return integer_comparison(rule);
    case Op::logical_and: case Op::logical_or: return conjunction(rule);
    case Op::logical_not: return logical_negation(rule);
    case Op::select: case Op::iselect: return choice(rule);
    case Op::to_f32: case Op::bool_to_f32: return kNone;
    case Op::to_i32: return conversion(rule);
  }
  // clang-format on
  ATTNFUSE_CHECK(false, "not an operation");
}

}  // namespace attnfuse
