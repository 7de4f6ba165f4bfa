// How much work a program is at given lengths: which score tiles its mask leaves empty, full or partial, how
// many (query, key) pairs it allows, and how many floating-point operations that makes. From interval
// analysis of the predicate; no kernel is involved.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse::bench {

enum class TileClass : std::uint8_t { empty, full, partial };

// Classes of one head's score tiles, row major: rows x cols tiles of block_q x block_k, clipped to sq x skv.
struct TileMap {
  std::int64_t rows = 0, cols = 0;
  std::vector<TileClass> tiles;
  std::int64_t count(TileClass which) const;
};
TileMap tile_map(const Graph& graph, const Sizes& sizes, std::int64_t block_q, std::int64_t block_k,
                 std::int64_t head = 0);

// Allowed (i, j) pairs of one head; pairs that depend on captured tensors count as allowed.
std::int64_t allowed_pairs(const Graph& graph, const Sizes& sizes, std::int64_t head = 0);

// Two products of 2 operations per multiply-add, over allowed pairs of all heads.
double matrix_flops(const Graph& graph, const Sizes& sizes);

// A picture of the map, at most 256 tiles a side drawn.
std::string svg(const TileMap& map, const std::string& title);

}  // namespace attnfuse::bench
