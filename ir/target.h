// Targets are data: what a machine offers, in fields that passes and shared emitters may ask.
// Shared code never asks for a target's name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/layout.h"
#include "ir/types.h"

namespace attnfuse {

// How a tile travels from global to shared memory; see Channel in ir/tile.h.
enum class CopyKind : unsigned char {
  direct,  // load and store where the copy is asked for
  staged,  // load into registers where it is asked for, store to shared memory where it is needed
  async,   // the machine copies in the background
  bulk,    // one thread asks the copy engine for a whole tile
};

// A matrix product instruction: accumulator[m,n] += a[m,k] * b[n,k], operands by rows of k.
struct MatrixUnit {
  std::string leaf;  // which emitter leaf writes it: "fma", "mma.sync", "mfma", ...
  std::vector<DType> operands;
  int m = 1, n = 1, k = 1;
  FragmentLayout a = {}, b = {},
                 accumulator = {};  // a: m x k, b: n x k, accumulator: m x n; empty when opaque or fma
  bool opaque = false;              // accumulators cannot be addressed: scores go through shared memory
  // Compute S^T = K Q^T and O^T = V^T P^T, so that the accumulator of the first product is an operand of the
  // second.
  bool transposed = false;
  bool accumulator_is_operand = false;  // probabilities go from accumulator to operand without shared memory
  bool is_fma() const { return m == 1; }
};

// A tuned choice for some programs; schedules that are in no row are derived. See ir/schedule.h.
struct ScheduleRow {
  std::vector<DType> dtypes;
  int min_head_dim, max_head_dim;  // of the larger of head_dim and v_head_dim
  int block_q, block_k, warps;
  bool query_in_registers = false;
  int score_heads = 1;  // of the programs that it is for
};

// What a machine with a copy engine and matrix products across warps offers to programs with roles.
struct PipelineUnits {
  std::string schedule;  // what the schedule for it is called
  bool automatic =
      false;  // taken without being asked for: once the conformance suite has passed on such a device
  MatrixUnit product;  // of `group_threads` threads together; b, and a unless in registers, in shared memory
  int group_threads = 128;
  int registers = 65536;  // of a workgroup; every thread starts with an equal share
  int alignment = 16;     // bytes, of addresses and strides that the copy engine takes

  int registers_at_start(int threads) const { return registers / threads / 8 * 8; }
};

// A tuned choice for programs with roles.
struct PipelineRow {
  std::vector<DType> dtypes;
  int min_head_dim, max_head_dim;  // of the larger of head_dim and v_head_dim
  int groups, block_k;             // consumer groups of 64 rows; keys per step
  int query_slots, kv_slots;
  int consumer_registers, producer_registers;
  bool take_turns;
  // Quarters of the exponentials that run beside the output product, the others wait for it: in programs
  // without and with a mask.
  int exponentials_plain, exponentials_masked;
  // For calls of up to so many query rows; kAnyLength: for all.
  int longest = kAnyLength;
  // The first group multiplies only half of a key tile whose other half its rows do not see.
  bool trims = false;
  double speed = 1;  // beside the fastest row of these head dims
  static constexpr int kAnyLength = 0;
};

// What the machine does per second, for the cost model of passes/rotation.h.
struct Rates {
  int cores = 1;             // compute units, which the rates are the sum of
  double matrix_tflops = 0;  // large dense products in 16 bits; with no matrix unit, fused multiply-adds
  double scalar_tops = 0;    // f32 instructions of lanes, a fused multiply-add being one
  double special_tops = 0;   // exp2 and the like
  double shared_tbps = 0;    // of shared memory
  double memory_gbps = 0;    // copy, both directions together
  double launch_us = 0;      // from one kernel of a chain to the next
  double portable_share = 0.6, pipeline_share = 0.85;  // of matrix_tflops: plain attention, by schedule
  bool measured = false;                               // else derived from the data sheet
};

struct Target {
  std::string name;     // "cuda:sm_90a": backend, colon, architecture
  std::string backend;  // "cuda"
  std::string arch;     // "sm_90a"
  std::string title;    // "NVIDIA H100, H200"
  int warp_size = 32;   // lanes that exchange registers; 1..64
  int max_threads = 1024;
  int shared_bytes = 48 * 1024;  // per workgroup
  int registers_per_thread = 255;
  int max_grid_x = 65535;
  // Of a driver that ends long loops: keys of a workgroup times the head dim; 0: no such limit.
  std::int64_t most_key_elements = 0;
  int compute_units = 1;  // workgroups of full size that run side by side; of the device once it is open
  CopyKind copy = CopyKind::direct;
  int async_copy_min_bytes = 0;   // smallest element the background copy moves
  int vector_bytes = 16;          // widest global access
  bool lane_exchange = true;      // registers can be exchanged between lanes; else through shared memory
  std::vector<MatrixUnit> units;  // best first; the last one is the generic fma unit, which takes every dtype
  std::vector<ScheduleRow> schedules;
  std::optional<PipelineUnits> pipeline;  // absent: programs with roles do not run
  std::vector<PipelineRow> pipelines;
  Rates rates;
};

// The first unit that takes `dtype`.
const MatrixUnit& matrix_unit(const Target& target, DType dtype);

// "16 x 8 x 16 f16 bf16 mma.sync, 99 KiB shared, 32 lanes"
std::string summary(const Target& target);

}  // namespace attnfuse
