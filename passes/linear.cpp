#include "passes/linear.h"

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

constexpr std::int64_t kSmall = std::int64_t(1) << 30;

bool fits_i32(std::int64_t value) { return value >= INT32_MIN && value <= INT32_MAX; }

}  // namespace

Linear operator*(Linear x, std::int64_t factor) {
  if (factor == 0) return {};
  for (auto& [term, coefficient] : x.terms) coefficient *= factor;
  x.constant *= factor;
  return x;
}

Linear operator+(Linear x, const Linear& y) {
  for (const auto& [term, coefficient] : y.terms) {
    const std::int64_t sum = x.terms[term] += coefficient;
    if (sum == 0) x.terms.erase(term);
  }
  x.constant += y.constant;
  return x;
}

Linear operator-(const Linear& x, const Linear& y) { return x + y * -1; }

bool is_small(const Linear& x) {
  const auto small = [](std::int64_t value) { return value >= -kSmall && value <= kSmall; };
  return small(x.constant) &&
         std::ranges::all_of(x.terms, [&](const auto& term) { return small(term.second); });
}

NodeId node_of(Folder& folder, const Linear& x) {
  ATTNFUSE_CHECK(fits_i32(x.constant), "a constant of a tile bound does not fit i32");
  NodeId sum;
  const auto add = [&](NodeId term, std::int64_t coefficient) {
    const std::int64_t size = coefficient < 0 ? -coefficient : coefficient;
    const NodeId scaled = folder.apply(ScalarOp::imul, {term, folder.i32(double(size))});
    const ScalarOp op = coefficient < 0 ? ScalarOp::isub : ScalarOp::iadd;
    sum = folder.apply(op, {sum.valid() ? sum : folder.i32(0), scaled});
  };
  for (const auto& [term, coefficient] : x.terms)
    if (coefficient > 0) add(term, coefficient);
  const bool constant_first = !sum.valid();
  if (constant_first) sum = folder.i32(double(x.constant));
  for (const auto& [term, coefficient] : x.terms)
    if (coefficient < 0) add(term, coefficient);
  return constant_first ? sum : folder.apply(ScalarOp::iadd, {sum, folder.i32(double(x.constant))});
}

NodeId at_most_zero(Folder& folder, const Linear& x) {
  Linear wild, tame = Linear::of(x.constant);
  for (const auto& [term, coefficient] : x.terms)
    (is_wild(folder.graph(), term) ? wild : tame).terms[term] = coefficient;
  const auto compare = [&](const Linear& left, const Linear& right) {
    return folder.apply(ScalarOp::ile, {node_of(folder, left), node_of(folder, right)});
  };
  const auto is_negative = [](const auto& term) { return term.second < 0; };
  if (!wild.terms.empty() && is_small(tame)) {
    const bool all_negative = std::ranges::all_of(wild.terms, is_negative);
    return all_negative ? compare(tame, wild * -1) : compare(wild, tame * -1);
  }
  // Any i32 is below what exceeds i32.
  if (!fits_i32(-x.constant)) return folder.truth(x.constant < 0);
  return compare(x - Linear::of(x.constant), Linear::of(-x.constant));
}

bool is_wild(const Graph& graph, NodeId id) {
  constexpr std::string_view kBounds[] = {"q_begin", "q_end", "k_begin", "k_end"};
  return std::ranges::any_of(cone(graph, {id}), [&](NodeId node) {
    const auto* variable = as<Variable>(graph.node(node));
    return as<Gather>(graph.node(node)) != nullptr ||
           (variable != nullptr && std::ranges::find(kBounds, variable->name) == std::end(kBounds));
  });
}

}  // namespace attnfuse
