#include "passes/key_bounds.h"

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

using Op = ScalarOp;
using Comparison = TileRanges::Comparison;

class Solver {
 public:
  explicit Solver(TileRanges& ranges) : ranges_(ranges), folder_(ranges.folder()) {}

  // Keys that satisfy the predicate, or its negation.
  KeyBounds solve(NodeId id, bool negated) {
    const Node node = folder_.graph().node(id);
    if (!node.axes.has(Axis::j)) return whole_if(may(id, negated));
    if (const auto* apply = as<Apply>(node)) {
      const std::vector<NodeId> x = folder_.graph().operands(id);
      if (apply->op == Op::logical_not) return solve(x[0], !negated);
      if (apply->op == Op::logical_and || apply->op == Op::logical_or) {
        const bool is_and = (apply->op == Op::logical_and) != negated;
        const KeyBounds a = solve(x[0], negated), b = solve(x[1], negated);
        return is_and ? both(a, b) : either(a, b);
      }
    }
    // Captured elements say which tiles are empty, not where keys end.
    const std::optional<Comparison> compare =
        reads_data(folder_.graph(), id) ? std::nullopt : ranges_.comparison(id);
    const std::optional<KeyBounds> solved = compare ? solve(*compare, negated) : std::nullopt;
    // A leaf that only data decides leaves nothing to skip.
    return solved ? *solved : KeyBounds{{}, {}, folder_.constant_of(may(id, negated)) != 1};
  }

 private:
  std::optional<KeyBounds> solve(const Comparison& compare, bool negated) {
    const Linear& d = compare.difference;
    switch (compare.kind) {
      case Comparison::Kind::at_most_zero:
        return at_most_zero(negated ? Linear::of(1) - d : d);
      case Comparison::Kind::zero:
        return negated ? all_but_some() : zero(d);
      case Comparison::Kind::nonzero:
        return negated ? zero(d) : all_but_some();
    }
    ATTNFUSE_CHECK(false, "not a kind of comparison");
  }

  std::optional<KeyBounds> zero(const Linear& d) {
    const std::optional<KeyBounds> below = at_most_zero(d), above = at_most_zero(d * -1);
    if (!below || !above) return {};
    return both(*below, *above);
  }

  // x /= y is empty on a tile only where x = y on all of it; not worth a test.
  static std::optional<KeyBounds> all_but_some() { return KeyBounds{}; }

  // d <= 0, where one term depends on j.
  std::optional<KeyBounds> at_most_zero(const Linear& d) {
    NodeId term;
    for (const auto& [candidate, coefficient] : d.terms) {
      if (!folder_.graph().node(candidate).axes.has(Axis::j)) continue;
      if (term.valid()) return {};
      term = candidate;
    }
    if (!term.valid()) return whole_if(ranges_.at_most_zero(d).may);
    const std::int64_t coefficient = d.terms.at(term);
    const auto rest = ranges_.range(d - Linear::of(term) * coefficient);
    if (!rest || !is_small(rest->lo)) return {};
    if (coefficient > 0) return at_most(term, floor_divided(rest->lo * -1, coefficient));
    return at_least(term, floor_divided(rest->lo + Linear::of(-coefficient - 1), -coefficient));
  }

  std::optional<KeyBounds> at_most(NodeId term, const Linear& limit) {
    if (as<Index>(folder_.graph().node(term))) return KeyBounds{{}, bound(limit + Linear::of(1)), false};
    const auto [op, x, y] = operation(term);
    if (op == Op::idiv) {
      const std::optional<double> divisor = folder_.constant_of(y);
      if (!divisor || *divisor <= 0) return {};
      const auto c = std::int64_t(*divisor);
      return small_at_most_zero(ranges_.linear(x) - limit * c - Linear::of(c - 1));
    }
    if (op != Op::imin && op != Op::imax) return {};
    return joined(op == Op::imax, small_at_most_zero(ranges_.linear(x) - limit),
                  small_at_most_zero(ranges_.linear(y) - limit));
  }

  std::optional<KeyBounds> at_least(NodeId term, const Linear& limit) {
    if (as<Index>(folder_.graph().node(term))) return KeyBounds{bound(limit), {}, false};
    const auto [op, x, y] = operation(term);
    if (op == Op::idiv) {
      const std::optional<double> divisor = folder_.constant_of(y);
      if (!divisor || *divisor <= 0) return {};
      return small_at_most_zero(limit * std::int64_t(*divisor) - ranges_.linear(x));
    }
    if (op != Op::imin && op != Op::imax) return {};
    return joined(op == Op::imin, small_at_most_zero(limit - ranges_.linear(x)),
                  small_at_most_zero(limit - ranges_.linear(y)));
  }

  std::optional<KeyBounds> small_at_most_zero(const Linear& d) {
    return is_small(d) ? at_most_zero(d) : std::nullopt;
  }

  struct Operation {
    Op op;
    NodeId x, y;
  };
  // A binary operation; some other operation when the term is none.
  Operation operation(NodeId term) {
    const auto* apply = as<Apply>(folder_.graph().node(term));
    if (!apply || info(apply->op).arity != 2) return {Op::neg, {}, {}};
    return {apply->op, folder_.graph().operand(term, 0), folder_.graph().operand(term, 1)};
  }

  Linear floor_divided(const Linear& x, std::int64_t divisor) {
    if (divisor == 1) return x;
    return ranges_.linear(folder_.apply(Op::idiv, {node_of(folder_, x), folder_.i32(double(divisor))}));
  }

  // A bound as a node. A captured element may be any i32, so it is cut to where keys are before a constant is
  // added: a bound beyond all keys stays beyond them.
  NodeId bound(const Linear& x) {
    const bool is_one_term = x.terms.size() == 1 && x.terms.begin()->second == 1;
    if (!is_one_term || x.constant == 0 || !is_wild(folder_.graph(), x.terms.begin()->first))
      return node_of(folder_, x);
    const NodeId term = x.terms.begin()->first;
    const NodeId cut = x.constant > 0 ? folder_.apply(Op::imin, {term, folder_.add(SizeOf{Size::skv})})
                                      : folder_.apply(Op::imax, {term, folder_.i32(0)});
    return folder_.apply(Op::iadd, {cut, folder_.i32(double(x.constant))});
  }

  NodeId may(NodeId id, bool negated) {
    const TileRanges::Truth truth = ranges_.truth(id);
    return negated ? folder_.apply(Op::logical_not, {truth.must}) : truth.may;
  }

  // All keys if the condition holds, else none.
  KeyBounds whole_if(NodeId condition) {
    if (folder_.constant_of(condition) == 1) return {};
    const NodeId zero = folder_.i32(0), skv = folder_.add(SizeOf{Size::skv});
    return {folder_.apply(Op::iselect, {condition, zero, skv}),
            folder_.apply(Op::iselect, {condition, skv, zero}), false};
  }

  std::optional<KeyBounds> joined(bool is_and, const std::optional<KeyBounds>& a,
                                  const std::optional<KeyBounds>& b) {
    if (is_and && (!a || !b)) {
      // One side alone still bounds.
      std::optional<KeyBounds> known = a ? a : b;
      if (known) known->holes = true;
      return known;
    }
    if (!a || !b) return {};
    return is_and ? both(*a, *b) : either(*a, *b);
  }

  KeyBounds both(const KeyBounds& a, const KeyBounds& b) {
    const auto met = [&](Op op, NodeId x, NodeId y) {
      return !x.valid() ? y : !y.valid() ? x : folder_.apply(op, {x, y});
    };
    return {met(Op::imax, a.first, b.first), met(Op::imin, a.end, b.end), a.holes || b.holes};
  }

  KeyBounds either(const KeyBounds& a, const KeyBounds& b) {
    const auto hull = [&](Op op, NodeId x, NodeId y) {
      return x.valid() && y.valid() ? folder_.apply(op, {x, y}) : NodeId{};
    };
    // Two intervals that start, or end, together have nothing between them.
    const bool touch = (!a.first.valid() && !b.first.valid()) || (!a.end.valid() && !b.end.valid());
    return {hull(Op::imin, a.first, b.first), hull(Op::imax, a.end, b.end), a.holes || b.holes || !touch};
  }

  TileRanges& ranges_;
  Folder& folder_;
};

}  // namespace

KeyBounds key_bounds(TileRanges& ranges, NodeId mask) { return Solver(ranges).solve(mask, false); }

}  // namespace attnfuse
