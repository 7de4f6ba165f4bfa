// expand_partner: partner(f(x, d)) becomes f(partner(x), partner's d). After it only inputs are paired, which
// a kernel does while it loads them, and the product with the values, which it holds; before tabulate, so
// that what becomes of the partner's d is tabulated too.
#include <fmt/format.h>

#include "ir/algorithm.h"
#include "passes/folder.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

std::string described(const Partner& partner) {
  return fmt::format("{} pairs of {} elements", partner.pairs == RotaryPairs::half ? "half" : "interleaved",
                     partner.count);
}

bool same(const Partner& a, const Partner& b) { return a.pairs == b.pairs && a.count == b.count; }

class Expander {
 public:
  Expander(Graph& to, Diagnostics& mistakes) : folder_(to), mistakes_(mistakes) {}

  NodeId add(const Node& node, std::span<const NodeId> operands) {
    const auto* partner = as<Partner>(node);
    return partner ? paired(operands[0], *partner, node.where) : folder_.add_like(node, operands);
  }

 private:
  using Pairing = std::tuple<NodeId, RotaryPairs, int>;

  // The value of `id` at the partner's d.
  NodeId paired(NodeId id, const Partner& partner, const Where& where) {
    const Node node = folder_.graph().node(id);
    if (!node.axes.has(Axis::d)) return id;
    const Pairing pairing{id, partner.pairs, partner.count};
    if (const auto found = done_.find(pairing); found != done_.end()) return found->second;
    return done_[pairing] = expand(id, node, partner, where);
  }

  NodeId expand(NodeId id, const Node& node, const Partner& partner, const Where& where) {
    if (as<Index>(node)) return paired_index(id, partner);
    if (as<Input>(node) || as<Attend>(node)) return folder_.add(partner, {id}, where);
    if (const auto* inner = as<Partner>(node)) {
      if (same(*inner, partner)) return folder_.graph().operand(id, 0);
      mistakes_.push_back({"pass.partner-nesting",
                           fmt::format("{} of {} would read elements that no thread loads together",
                                       described(partner), described(*inner)),
                           where, "use the same pairs and count in every rope of a stage"});
      return id;
    }
    ATTNFUSE_CHECK(as<Apply>(node) || as<Gather>(node), "only elementwise values are paired");
    std::vector<NodeId> operands = folder_.graph().operands(id);
    for (NodeId& operand : operands) operand = paired(operand, partner, where);
    return folder_.add(node.kind, operands, node.where);
  }

  NodeId paired_index(NodeId d, const Partner& partner) {
    const auto op = [&](ScalarOp op, NodeId x, NodeId y) { return folder_.apply(op, {x, y}); };
    const auto i32 = [&](double value) { return folder_.i32(value); };
    const NodeId count = i32(partner.count);
    const NodeId inside = op(ScalarOp::ilt, d, count);
    switch (partner.pairs) {
      case RotaryPairs::half: {
        const int pairs = partner.count / 2;
        const NodeId half = i32(pairs);
        const NodeId upper = folder_.apply(ScalarOp::iselect, {inside, op(ScalarOp::isub, d, half), d});
        return folder_.apply(ScalarOp::iselect,
                             {op(ScalarOp::ilt, d, half), op(ScalarOp::iadd, d, half), upper});
      }
      case RotaryPairs::interleaved: {
        // d + 1 when d is even, d - 1 when it is odd.
        const NodeId odd = op(ScalarOp::imod, d, i32(2));
        const NodeId other =
            op(ScalarOp::isub, op(ScalarOp::iadd, d, i32(1)), op(ScalarOp::imul, odd, i32(2)));
        return folder_.apply(ScalarOp::iselect, {inside, other, d});
      }
    }
    ATTNFUSE_CHECK(false, "not a kind of pairs");
  }

  Folder folder_;
  Diagnostics& mistakes_;
  std::map<Pairing, NodeId> done_;
};

}  // namespace

Result<Graph> expand_partner(const Graph& graph) {
  Diagnostics mistakes;
  std::optional<Expander> expander;
  Graph result =
      rewrite_live(graph, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> operands) {
        if (!expander) expander.emplace(to, mistakes);
        return expander->add(from.node(id), operands);
      });
  if (!mistakes.empty()) return mistakes;
  return result;
}

}  // namespace attnfuse
