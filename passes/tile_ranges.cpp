#include "passes/tile_ranges.h"

#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;

constexpr double kLargestWhole = 1 << 24;  // up to here f32 holds every whole number

// Greater than zero whenever a score tile exists: sizes are, then.
bool is_positive(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (const auto* constant = as<Constant>(node)) return constant->value > 0;
  if (as<SizeOf>(node)) return true;
  const auto* apply = as<Apply>(node);
  if (!apply) return false;
  const auto positive = [&](int k) { return is_positive(graph, graph.operand(id, k)); };
  if (apply->op == Op::imax) return positive(0) || positive(1);
  if (apply->op == Op::imin) return positive(0) && positive(1);
  return false;
}

}  // namespace

bool reads_data(const Graph& graph, NodeId root) {
  return std::ranges::any_of(elementwise_cone(graph, {root}), [&](NodeId id) {
    return as<Gather>(graph.node(id)) != nullptr && !is_scalar(graph.node(id));
  });
}

bool is_scalar(const Node& node) { return node.axes.within({Axis::b, Axis::h, Axis::g}); }

// ---- linear forms -------------------------------------------------------------------------------

Linear TileRanges::linear(NodeId id) {
  if (const auto found = linear_.find(id); found != linear_.end()) return found->second;
  const Graph& graph = folder_.graph();
  Linear result = Linear::of(id);
  if (const std::optional<double> value = folder_.constant_of(id)) {
    result = Linear::of(std::int64_t(*value));
  } else if (const auto* apply = as<Apply>(graph.node(id))) {
    const Op op = apply->op;
    const std::vector<NodeId> x = graph.operands(id);
    Linear sum = result;
    if (op == Op::iadd) sum = linear(x[0]) + linear(x[1]);
    if (op == Op::isub) sum = linear(x[0]) - linear(x[1]);
    if (op == Op::ineg) sum = linear(x[0]) * -1;
    if (op == Op::imul)
      for (std::size_t k : {0, 1})
        if (const auto factor = folder_.constant_of(x[k])) sum = linear(x[1 - k]) * std::int64_t(*factor);
    if (is_small(sum)) result = sum;
  }
  return linear_[id] = result;
}

// ---- ranges of i32 values -----------------------------------------------------------------------

std::optional<TileRanges::Range> TileRanges::range(NodeId id) { return range(linear(id)); }

std::optional<TileRanges::Range> TileRanges::folded(NodeId id) {
  if (folds_ == nullptr || !reads_data(folder_.graph(), id)) return {};
  const Axes axes = folder_.graph().node(id).axes;
  const bool by_row = axes.within({Axis::b, Axis::h, Axis::g, Axis::i});
  if (!by_row && !axes.within({Axis::b, Axis::h, Axis::g, Axis::j})) return {};
  const std::string number = std::to_string(folds_->size() / 2);
  const auto scalar = [&](const char* prefix, Op op) {
    const std::string name = prefix + number;
    folds_->push_back({name, op, by_row ? Axis::i : Axis::j, id});
    return Linear::of(folder_.variable(name, ValueType::i32));
  };
  const Linear least = scalar("least_", Op::imin), most = scalar("most_", Op::imax);
  return Range{least, most};
}

std::optional<TileRanges::Truth> TileRanges::folded_truth(NodeId id) {
  if (folds_ == nullptr) return {};
  const std::optional<Range> values = folded(op(Op::iselect, {id, folder_.i32(1), folder_.i32(0)}));
  if (!values) return {};
  const NodeId zero = folder_.i32(0);
  return Truth{op(Op::ine, {node(values->hi), zero}), op(Op::ine, {node(values->lo), zero})};
}

std::optional<TileRanges::Range> TileRanges::range(const Linear& x) {
  Range sum{Linear::of(x.constant), Linear::of(x.constant)};
  for (const auto& [term, coefficient] : x.terms) {
    auto found = ranges_.find(term);
    if (found == ranges_.end()) found = ranges_.emplace(term, find_range(term)).first;
    if (!found->second) return {};
    Range scaled{found->second->lo * coefficient, found->second->hi * coefficient};
    if (coefficient < 0) std::swap(scaled.lo, scaled.hi);
    sum = {sum.lo + scaled.lo, sum.hi + scaled.hi};
    // Sums of a few more stay far from overflow here; at_most_zero() accepts constants beyond i32.
    for (Linear end : {sum.lo, sum.hi}) {
      end.constant /= std::int64_t(1) << 10;
      if (!is_small(end)) return {};
    }
  }
  return sum;
}

std::optional<TileRanges::Range> TileRanges::small_range(NodeId id) {
  const std::optional<Range> result = range(id);
  return result && is_small(result->lo) && is_small(result->hi) ? result : std::nullopt;
}

std::optional<TileRanges::Range> TileRanges::find_range(NodeId id) {
  const Node node = folder_.graph().node(id);
  if (is_scalar(node)) return Range{Linear::of(id), Linear::of(id)};
  if (const std::optional<Range> known = folded(id)) return known;
  const auto bounds = [&](const char* begin, const char* end) {
    return Range{Linear::of(folder_.variable(begin, ValueType::i32)),
                 Linear::of(folder_.variable(end, ValueType::i32)) + Linear::of(-1)};
  };
  if (const auto* index = as<Index>(node)) {
    if (index->axis == Axis::i) return bounds("q_begin", "q_end");
    if (index->axis == Axis::j) return bounds("k_begin", "k_end");
  }
  if (as<Gather>(node)) return element(id);
  const auto* apply = as<Apply>(node);
  if (!apply) return {};
  const std::vector<NodeId> x = folder_.graph().operands(id);
  if (apply->op == Op::imul) return product(x[0], x[1]);
  if (apply->op == Op::idiv) return quotient(x[0], x[1]);
  if (apply->op == Op::imod) return remainder(x[0], x[1]);
  if (apply->op == Op::bit_and) return masked_bits(x[0], x[1]);
  if (apply->op == Op::shift_right) return shifted_right(x[0], x[1]);
  if (apply->op == Op::imin || apply->op == Op::imax) return extremum(apply->op, x[0], x[1]);
  if (apply->op == Op::iselect) return choice(x[0], x[1], x[2]);
  return {};
}

std::optional<TileRanges::Range> TileRanges::product(NodeId x, NodeId y) {
  const auto a = small_range(x), b = small_range(y);
  if (!a || !b) return {};
  NodeId lo, hi;
  for (const Linear& left : {a->lo, a->hi})
    for (const Linear& right : {b->lo, b->hi}) {
      const NodeId corner = op(Op::imul, {node(left), node(right)});
      lo = lo.valid() ? op(Op::imin, {lo, corner}) : corner;
      hi = hi.valid() ? op(Op::imax, {hi, corner}) : corner;
    }
  return Range{linear(lo), linear(hi)};
}

std::optional<TileRanges::Range> TileRanges::quotient(NodeId x, NodeId y) {
  const auto dividend = small_range(x);
  const std::optional<double> divisor = folder_.constant_of(y);
  const bool is_negative = divisor && *divisor < 0;
  const bool is_known = divisor || (is_scalar(folder_.graph().node(y)) && is_positive(folder_.graph(), y));
  if (!dividend || !is_known) return {};
  Range result{linear(op(Op::idiv, {node(dividend->lo), y})), linear(op(Op::idiv, {node(dividend->hi), y}))};
  if (is_negative) std::swap(result.lo, result.hi);
  return result;
}

std::optional<TileRanges::Range> TileRanges::remainder(NodeId x, NodeId y) {
  const auto dividend = small_range(x);
  const std::optional<double> divisor = folder_.constant_of(y);
  const bool is_known = divisor || (is_scalar(folder_.graph().node(y)) && is_positive(folder_.graph(), y));
  if (!dividend || !is_known) return {};
  const NodeId lo = node(dividend->lo), hi = node(dividend->hi), zero = folder_.i32(0);
  const NodeId same = op(Op::ieq, {op(Op::idiv, {lo, y}), op(Op::idiv, {hi, y})});
  NodeId least = zero, most = op(Op::isub, {y, folder_.i32(1)});
  if (divisor && *divisor < 0) least = op(Op::iadd, {y, folder_.i32(1)}), most = zero;
  return Range{linear(op(Op::iselect, {same, op(Op::imod, {lo, y}), least})),
               linear(op(Op::iselect, {same, op(Op::imod, {hi, y}), most}))};
}

// What two numbers agree on down to the first bit that differs, all between them share; the bits from there
// on may be anything. Masks of bits divide the curves that images are stored along.
std::optional<TileRanges::Range> TileRanges::masked_bits(NodeId x, NodeId mask) {
  const std::optional<double> kept = folder_.constant_of(mask);
  const auto values = small_range(x);
  if (!values || !kept || *kept < 0) return {};
  const NodeId lo = node(values->lo), hi = node(values->hi);
  NodeId open = op(Op::bit_xor, {lo, hi});
  for (int shift : {1, 2, 4, 8, 16})
    open = op(Op::bit_or, {open, op(Op::shift_right, {open, folder_.i32(shift)})});
  const NodeId shared = op(Op::bit_and, {lo, op(Op::bit_not, {open})});
  return Range{linear(op(Op::bit_and, {shared, mask})),
               linear(op(Op::bit_and, {op(Op::bit_or, {shared, open}), mask}))};
}

std::optional<TileRanges::Range> TileRanges::shifted_right(NodeId x, NodeId amount) {
  const auto values = small_range(x);
  if (!values || !folder_.constant_of(amount)) return {};
  return Range{linear(op(Op::shift_right, {node(values->lo), amount})),
               linear(op(Op::shift_right, {node(values->hi), amount}))};
}

std::optional<TileRanges::Range> TileRanges::extremum(Op op, NodeId x, NodeId y) {
  const auto a = small_range(x), b = small_range(y);
  if (!a || !b) return {};
  return Range{linear(this->op(op, {node(a->lo), node(b->lo)})),
               linear(this->op(op, {node(a->hi), node(b->hi)}))};
}

std::optional<TileRanges::Range> TileRanges::choice(NodeId condition, NodeId x, NodeId y) {
  const auto a = small_range(x), b = small_range(y);
  if (!a || !b) return {};
  const Truth known = truth(condition);
  const auto chosen = [&](Op hull, NodeId left, NodeId right) {
    const NodeId either = op(Op::iselect, {known.may, op(hull, {left, right}), right});
    return linear(op(Op::iselect, {known.must, left, either}));
  };
  return Range{chosen(Op::imin, node(a->lo), node(b->lo)), chosen(Op::imax, node(a->hi), node(b->hi))};
}

std::optional<TileRanges::Range> TileRanges::element(NodeId id) {
  const std::optional<BlockElement> block = block_element(id);
  if (!block) return {};
  const auto known_or = [&](double limit) {
    return Linear::of(op(Op::iselect, {block->is_one, block->element, folder_.i32(limit)}));
  };
  return Range{known_or(INT32_MIN), known_or(INT32_MAX)};
}

std::optional<TileRanges::BlockElement> TileRanges::block_element(NodeId id) {
  const Node node = folder_.graph().node(id);
  NodeId is_one = folder_.truth(true);
  std::vector<NodeId> indices = folder_.graph().operands(id);
  for (NodeId& index : indices) {
    if (is_scalar(folder_.graph().node(index))) continue;
    const auto* apply = as<Apply>(folder_.graph().node(index));
    // A block of one row or key decides nothing for tiles.
    if (!apply || apply->op != Op::idiv) return {};
    const auto counted = small_range(index);
    if (!counted) return {};
    const NodeId first = node_of(folder_, counted->lo), last = node_of(folder_, counted->hi);
    is_one = op(Op::logical_and, {is_one, op(Op::ieq, {first, last})});
    index = first;
  }
  return BlockElement{is_one, folder_.add(node.kind, indices, node.where)};
}

// ---- truth of booleans --------------------------------------------------------------------------

TileRanges::Truth TileRanges::truth(NodeId id) {
  if (const auto found = truths_.find(id); found != truths_.end()) return found->second;
  const Truth result = find_truth(id);
  return truths_[id] = result;
}

TileRanges::Truth TileRanges::find_truth(NodeId id) {
  const Node node = folder_.graph().node(id);
  if (is_scalar(node)) return {id, id};
  if (const std::optional<Truth> known = folded_truth(id)) return *known;
  if (const auto* apply = as<Apply>(node)) {
    const std::vector<NodeId> x = folder_.graph().operands(id);
    if (apply->op == Op::logical_not) {
      const Truth inner = truth(x[0]);
      return {negated(inner.must), negated(inner.may)};
    }
    if (apply->op == Op::logical_and || apply->op == Op::logical_or) {
      const Truth a = truth(x[0]), b = truth(x[1]);
      return {op(apply->op, {a.may, b.may}), op(apply->op, {a.must, b.must})};
    }
  }
  if (const std::optional<Comparison> compare = comparison(id)) return compared(*compare);
  if (as<Gather>(node))
    if (const std::optional<BlockElement> block = block_element(id))
      return {op(Op::logical_or, {negated(block->is_one), block->element}),
              op(Op::logical_and, {block->is_one, block->element})};
  return {folder_.truth(true), folder_.truth(false)};
}

TileRanges::Truth TileRanges::at_most_zero(const Linear& x) {
  const std::optional<Range> values = range(x);
  if (!values) return {folder_.truth(true), folder_.truth(false)};
  return {attnfuse::at_most_zero(folder_, values->lo), attnfuse::at_most_zero(folder_, values->hi)};
}

TileRanges::Truth TileRanges::compared(const Comparison& compare) {
  const Truth below = at_most_zero(compare.difference);
  if (compare.kind == Comparison::Kind::at_most_zero) return below;
  const Truth above = at_most_zero(compare.difference * -1);
  const Truth zero{op(Op::logical_and, {below.may, above.may}),
                   op(Op::logical_and, {below.must, above.must})};
  if (compare.kind == Comparison::Kind::zero) return zero;
  return {negated(zero.must), negated(zero.may)};
}

std::optional<TileRanges::Comparison> TileRanges::comparison(NodeId id) {
  using Kind = Comparison::Kind;
  struct Row {
    Op integer, real;
    Kind kind;
    int sign;    // of left - right
    int offset;  // 1 for strict comparisons
  };
  constexpr Row kRows[] = {
      {Op::ile, Op::le, Kind::at_most_zero, 1, 0},  {Op::ilt, Op::lt, Kind::at_most_zero, 1, 1},
      {Op::ige, Op::ge, Kind::at_most_zero, -1, 0}, {Op::igt, Op::gt, Kind::at_most_zero, -1, 1},
      {Op::ieq, Op::eq, Kind::zero, 1, 0},          {Op::ine, Op::ne, Kind::nonzero, 1, 0}};
  const auto* apply = as<Apply>(folder_.graph().node(id));
  if (!apply) return {};
  const Op op = apply->op;
  for (const Row& row : kRows) {
    if (op != row.integer && op != row.real) continue;
    NodeId left = folder_.graph().operand(id, 0), right = folder_.graph().operand(id, 1);
    if (op == row.real) left = whole(left), right = whole(right);
    if (!left.valid() || !right.valid()) return {};
    const Linear difference = (linear(left) - linear(right)) * row.sign + Linear::of(row.offset);
    return Comparison{row.kind, difference};
  }
  return {};
}

NodeId TileRanges::whole(NodeId id) {
  const Node node = folder_.graph().node(id);
  if (const auto* constant = as<Constant>(node)) {
    const double value = constant->value;
    return value == std::floor(value) && std::fabs(value) <= kLargestWhole ? folder_.i32(value) : NodeId{};
  }
  const auto* apply = as<Apply>(node);
  if (!apply) return {};
  const std::vector<NodeId> x = folder_.graph().operands(id);
  if (apply->op == Op::to_f32) return x[0];
  if (apply->op == Op::floor) return whole(x[0]);
  const NodeId first = apply->op == Op::abs || apply->op == Op::neg ? whole(x[0]) : NodeId{};
  if (!first.valid()) return {};
  const NodeId negative = op(Op::ineg, {first});
  return apply->op == Op::neg ? negative : op(Op::imax, {first, negative});
}

}  // namespace attnfuse
