// remove_dead: what no output needs is not copied. Last, after tabulate has orphaned what it computed.
// Captured tensors stay, used or not: they are the caller's interface.
#include "ir/algorithm.h"
#include "passes/passes.h"

namespace attnfuse {

Result<Graph> remove_dead(const Graph& graph) {
  return rewrite_live(graph, [](Graph&, const Graph&, NodeId, std::span<const NodeId>) { return NodeId{}; });
}

}  // namespace attnfuse
