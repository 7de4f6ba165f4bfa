// Rows of a swizzled slot through the column groups of their channel, in place: a thread keeps its columns
// from row to row, two elements a word, so that frequencies are read once, and the cosine and sine of an
// angle that grows by the same step from row to row follow from those of the row before.
#pragma once

#include "backends/common/tile_writer.h"

namespace attnfuse::cuda {

void map_slot(TileWriter& writer, const MapSlot& map);

}  // namespace attnfuse::cuda
