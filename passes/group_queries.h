// Decoding: with one query row, the query heads that share keys become the rows of one head. A tile of
// queries then holds all of them, and keys and values are read once for the group rather than once for each
// head.
#pragma once

#include "ir/graph.h"

namespace attnfuse {

// Whether heads share keys at all.
bool has_query_groups(const Graph& graph);

// The program of kv_heads heads that computes what `graph` does for calls with sq = 1, when it gets queries
// and outputs as [batch, kv_heads, heads / kv_heads, ...] in place of [batch, heads, 1, ...]. Row r of head g
// is head g * group + r of `graph`; captured tensors keep their shapes.
Graph group_queries(const Graph& graph);

}  // namespace attnfuse
