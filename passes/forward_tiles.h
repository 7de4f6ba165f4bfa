// The tiles of the portable forward kernel: shapes, layouts and what they cost. Lowering, the footprint and
// the schedule search all read this one plan, so that a schedule that fits on paper fits in the kernel.
#pragma once

#include <vector>

#include "ir/tile.h"

namespace attnfuse {

// What every score head has of its own; the other tiles serve one after the other.
struct HeadTiles {
  TileId query;             // shared; query_in_registers may fill query operands without
  TileId query_operand;     // registers, read from a shared query
  TileId output;            // the second product's accumulator
  TileId row_max, row_sum;  // per-row vectors beside scores_rows
};

struct ForwardTiles : HeadTiles {
  std::vector<Tile> tiles;
  HeadTiles second;       // of programs with two score heads
  TileId key, value;      // shared
  TileId scores;          // the first product's accumulator
  TileId scores_shared;   // opaque units: scores pass through here to rows of threads
  TileId scores_rows;     // opaque units: scores as rows of threads; else the same tile as `scores`
  TileId weights;         // probabilities in the program's dtype, registers (operand of the second product)
  TileId weights_shared;  // probabilities in shared memory, for units whose accumulator is no operand
  TileId scores_half, weights_half;                 // for half of the keys of a tile, in schedules that trim
  TileId row_max_before, row_max_safe, row_factor;  // per-row vectors beside scores_rows
  TileId row_factor_shared;                         // opaque units: the factor as the matrix unit reads it

  const Tile& at(TileId id) const { return tiles.at(std::size_t(id.value)); }
};

// Threads own rows: neighbouring lanes lie along the columns, the others along the rows.
FragmentLayout rows_of_threads(const Target& target, const Schedule& schedule, int cols);

ForwardTiles plan_forward_tiles(const ProgramInfo& info, const Target& target, const Schedule& schedule);
Footprint footprint_of(const std::vector<Tile>& tiles, int threads);

}  // namespace attnfuse
