// The tiles of the pipelined forward kernel, and what a workgroup of it needs. Lowering and the schedule
// choice read this one plan.
#pragma once

#include <string>
#include <vector>

#include "passes/forward_tiles.h"

namespace attnfuse {

// Rows that one group of threads computes: the m side of its product.
int group_rows(const Target& target);

// Query, key and value tiles are swizzled slots; the output is staged in the query's slot
// (plan.scores_shared).
ForwardTiles plan_pipelined_tiles(const ProgramInfo& info, const Target& target, const Schedule& schedule);
// Slots, barriers and the ring of work items included; the registers are the consumers'.
Footprint pipelined_footprint(const ProgramInfo& info, const Target& target, const Schedule& schedule);
// Whether the copy engine brings tiles of so many keys: from pages, whole pages or parts of one, in units
// that the swizzle pattern repeats after.
bool takes_pages(const Storage& storage, int block_k);
// What keeps an optimized program from the schedule with roles of a target that has it; empty: nothing.
std::string pipeline_refusal(const Graph& graph, const Target& target);

}  // namespace attnfuse
