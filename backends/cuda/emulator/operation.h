// What lanes ask of an emulated NVIDIA multiprocessor. host_source.cpp repeats the numbers as text. Operands
// lie in memory as 64-bit words: numbers, bits and addresses.
#pragma once

#include <cstdint>
#include <string_view>

namespace attnfuse::cuda {

enum class Operation : std::uint8_t {
  // A warp meets.
  sync_warp,
  shuffle,                 // {bits, lane} -> u32; immediate: ShuffleKind
  ballot,                  // {predicate} -> u32
  load_matrix,             // ldmatrix {row}; immediate: matrices (2, 4) -> u32 each
  load_matrix_transposed,  // the same
  store_matrix,            // stmatrix {row, 4 words}
  multiply_f16,            // mma.sync m16n8k16 {a0..a3, b0, b1} -> float[4], read and written
  multiply_bf16,
  raise_registers,  // setmaxnreg; immediate: registers
  lower_registers,
  // Threads meet.
  sync_threads,
  sync_named,    // bar.sync {barrier, threads}
  arrive_named,  // bar.arrive {barrier, threads}
  // cp.async.
  copy,  // {shared, global, whether inside}
  copy_commit,
  copy_wait,  // for all of this thread
  // mbarrier.
  barrier_init,  // {barrier, arrivals}
  barrier_init_fence,
  barrier_arrive,  // {barrier, bytes}; immediate 1: expect_tx
  barrier_test,    // {barrier, parity} -> u32: whether the phase is over; sleeps if it is not
  // cp.async.bulk.tensor.
  bulk_load,   // {shared, map, barrier, c0..c3, hint}
  bulk_store,  // {map, shared, c0..c3, hint}
  bulk_commit,
  bulk_wait,       // immediate: groups that may be left
  bulk_wait_read,  // the same
  proxy_fence,
  // wgmma: a warpgroup.
  product_fence,
  product_shared_f16,  // {a, b, accumulate}; immediate: n; result: float[n / 2]
  product_shared_bf16,
  product_registers_f16,  // {a0..a3, b, accumulate}; the same
  product_registers_bf16,
  product_commit,
  product_wait,  // immediate: groups that may be left -> u32: the same
};

enum class ShuffleKind : std::uint8_t { index, exclusive_or, up, down };

std::string_view name(Operation operation);

inline const std::uint64_t* words(const void* operands) {
  return static_cast<const std::uint64_t*>(operands);
}

}  // namespace attnfuse::cuda
