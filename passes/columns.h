// Columns of a query, key or value expression in the groups that a thread computes together: the two elements
// of a pair, or each alone. Written for d of the first element only, what both need (the cosine of an angle,
// the sine up to its sign) is one value.
#pragma once

#include <vector>

#include "ir/tile.h"

namespace attnfuse {

// Groups that cover the columns [0, columns) of `transform`, a value over Input and Partner(Input). Nodes are
// added to `graph`.
std::vector<ColumnGroup> column_groups(Graph& graph, NodeId transform, int columns);

// The same, where `threads` threads can take rows of queries in their slot through them, in place (MapSlot):
// two elements a word, two words a thread, and sums over a row by the lanes that share it. Else empty.
std::vector<ColumnGroup> slot_columns(Graph& graph, NodeId transform, int columns, int threads);

}  // namespace attnfuse
