// max_logit: one more output, the largest score of every row after score and mask lines, the sink included;
// -inf where no key is allowed. Its maximum over rows is what MuonClip (QK-Clip) compares with its threshold.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::output};

Value expand(const BlockInput& input) {
  Graph& graph = input.emitter.graph;
  const NodeId largest = graph.add(RowMax{}, {find<Normalize>(graph)}, input.where);
  graph.add(Output{"max_logit"}, {largest}, input.where);
  return input.x;
}

}  // namespace

constinit const Block kMaxLogit{
    .name = "max_logit",
    .stages = kStages,
    .parameters = {},
    .about = "Leaves the output as it is and gives the largest score of every row as output `max_logit`.",
    .math = "max_j s_ij",
    .latex = "\\max_j s_{ij}",
    .source = "Kimi Team, Kimi K2 (2025): MuonClip",
    .expand = expand,
};

}  // namespace attnfuse
