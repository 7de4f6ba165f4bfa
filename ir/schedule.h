// Schedule: the numbers that turn a program into one kernel. A schedule table row or the derived default.
#pragma once

#include <string>

#include "ir/target.h"

namespace attnfuse {

struct Schedule {
  std::string name = "portable";
  int block_q = 64;  // query rows per workgroup = warps * rows_per_warp
  int block_k = 64;  // keys per step
  int warps = 4;
  int rows_per_warp = 16;
  bool query_in_registers = false;  // query operands are loaded once, not every step
  CopyKind copy = CopyKind::direct;
  int value_columns = 0;  // columns of values and outputs that a workgroup takes; 0: all
  int vector_bytes = 16;  // global access width; the element size when pointers or strides are not aligned
  // Programs with roles: block_q = groups * 64 rows, warps = 4 * (groups + 1), or 4 more that transform
  // queries.
  int groups = 0;  // 0: no roles
  int query_slots = 1, kv_slots = 1;
  int consumer_registers = 0, producer_registers = 0;
  int transform_registers = 0;  // of the threads that transform queries; 0: there are none
  bool take_turns = false;
  int exponentials_first = 4;  // quarters; see PipelineRow
  bool trims = false;
  double speed = 1;    // beside the fastest tiling of these head dims
  std::string source;  // "table" or "derived": where the numbers come from
  bool operator==(const Schedule&) const = default;
};

// What a schedule needs, for the proof that it fits.
struct Footprint {
  int shared_bytes = 0;
  int threads = 0;
  int registers = 0;  // estimate: accumulators, scores, operands, addresses
};

}  // namespace attnfuse
