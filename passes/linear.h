// Linear: an i32 value as a sum of constant multiples of other values. Terms that appear twice are collected,
// so that i - j is one form however it is written, and its range over a tile is exact.
#pragma once

#include <map>

#include "passes/folder.h"

namespace attnfuse {

struct Linear {
  std::map<NodeId, std::int64_t> terms;  // no zero coefficients
  std::int64_t constant = 0;

  static Linear of(std::int64_t constant) { return {{}, constant}; }
  static Linear of(NodeId term) { return {{{term, 1}}, 0}; }
  bool operator==(const Linear&) const = default;
};

Linear operator+(Linear x, const Linear& y);
Linear operator-(const Linear& x, const Linear& y);
Linear operator*(Linear x, std::int64_t factor);

// Every coefficient and the constant fit i32 with room for a few additions.
bool is_small(const Linear& x);

// The sum as a node. The constant must fit i32.
NodeId node_of(Folder& folder, const Linear& x);

// x <= 0 as a boolean node, arranged so that neither side overflows although a captured element may be any
// i32 (a user's "no limit"): such elements stand alone.
NodeId at_most_zero(Folder& folder, const Linear& x);

// Reads a captured tensor, or is a scalar other than the tile's bounds: any i32.
bool is_wild(const Graph& graph, NodeId id);

}  // namespace attnfuse
