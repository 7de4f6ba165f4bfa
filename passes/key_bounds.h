// Which keys a mask can allow for the rows of one query tile: one interval, solved from the linear
// inequalities in j that the predicate consists of.
#pragma once

#include "passes/tile_ranges.h"

namespace attnfuse {

struct KeyBounds {
  NodeId first, end;   // over q_begin, q_end; invalid = unbounded
  bool holes = false;  // keys inside may all be forbidden, in whole tiles
};

KeyBounds key_bounds(TileRanges& ranges, NodeId mask);

}  // namespace attnfuse
