// classify_tiles: how a mask divides the score tiles, so that a kernel visits no empty tile and evaluates the
// predicate on partial tiles only. Everything is an expression of run-time lengths and tile bounds: one
// kernel serves every length, and no block mask is stored.
#include "passes/key_bounds.h"
#include "passes/passes.h"

namespace attnfuse {
TileClasses classify_tiles(Graph& graph, NodeId mask) {
  Folder folder(graph);
  TileRanges ranges(folder);
  const TileRanges::Truth truth = ranges.truth(mask);
  const KeyBounds bounds = key_bounds(ranges, mask);
  TileClasses classes;
  classes.first_key = bounds.first.valid() ? bounds.first : folder.i32(0);
  classes.end_key = bounds.end.valid() ? bounds.end : folder.add(SizeOf{Size::skv});
  classes.empty = folder.apply(ScalarOp::logical_not, {truth.may});
  classes.full = truth.must;
  classes.has_holes = bounds.holes && folder.constant_of(classes.empty) != 0;
  classes.depends_on_data = reads_data(graph, mask);
  return classes;
}

}  // namespace attnfuse
