// simplify: every node is rebuilt through a Folder. First, so that later passes match few forms; sizes that
// are compiled in become constants.
#include "ir/algorithm.h"
#include "passes/folder.h"
#include "passes/passes.h"

namespace attnfuse {

Result<Graph> simplify(const Graph& graph) {
  std::optional<Folder> folder;
  return rewrite_live(graph, [&](Graph& to, const Graph& from, NodeId id, std::span<const NodeId> operands) {
    if (!folder) folder.emplace(to);
    return folder->add_like(from.node(id), operands);
  });
}

}  // namespace attnfuse
