// Key bounds that only data tell: a document mask says which keys a query tile sees when the ids are known. A
// kernel ahead of attention folds every part of the mask that depends on a row alone, or on a key alone, to
// its least and greatest value over the tile, decides with them for all key tiles of a query tile, and leaves
// four numbers, in O(sq) memory. Where ids are sorted these are the document; in any order they stay right.
#pragma once

#include <array>
#include <string_view>

#include "passes/passes.h"

namespace attnfuse {

// No row of the query tile sees a key outside [seen_begin, seen_end); all rows see all keys of [open_begin,
// open_end).
inline constexpr std::array<std::string_view, 4> kDataBounds = {"seen_begin", "seen_end", "open_begin",
                                                                "open_end"};

// Whether the kernel would find more than tile bounds alone say. `graph`: what run_graph_passes gives.
bool has_data_bounds(const Graph& graph);
bool data_bounds_differ_by_head(const Graph& graph);

// The table: i32 [batch, heads or 1, query tiles of at most sq, 4]. `name`: data_bounds_name.
TensorInfo data_bounds_tensor(const Graph& graph, const std::string& name);
std::string data_bounds_name(const Graph& graph);

// The kernel that fills the table for attention in tiles of attention.block_q rows and attention.block_k
// keys.
Result<TileProgram> compile_data_bounds(const Graph& graph, const Target& target, const Schedule& attention);

}  // namespace attnfuse
