// The score heads of a program: most have one. With two (differential attention) each
// has queries and keys of its own; both weigh the same values under the same mask, and the output expression
// reads both results. Lowering, the reference and the tools that show programs read them here.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace attnfuse {

struct ScoreHead {
  TensorId query, key;
  NodeId scores, normalize, attend;  // the first two are invalid where a program lacks them: verify() asks
};

// The first is that of the program's first query tensor.
std::vector<ScoreHead> score_heads(const Graph& graph);

}  // namespace attnfuse
