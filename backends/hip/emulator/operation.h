// What a lane hands over when it meets the others of its wave. The compiled kernel and the scheduler share
// these numbers and structs; builtins.cpp repeats them as text.
#pragma once

#include <string_view>

namespace attnfuse::hip {

enum class Operation : int {
  workgroup_barrier,
  wave_barrier,
  bpermute,     // {i32 lane * 4, u32 value} -> u32
  swizzle,      // {u32 value}, immediate: and | or << 5 | xor << 10, within 32 lanes
  quad,         // {u32 value}, immediate: four 2-bit selectors within 4 lanes
  permlane16x,  // {u32 value, u32 low selectors, u32 high selectors}: a lane of the other half of 32
  first_lane,   // {u32 value} -> the first lane's
  mfma_32x32x8_f16,
  mfma_32x32x8_bf16,
  mfma_16x16x16_f16,
  mfma_16x16x16_bf16,
  wmma_f16,
  wmma_bf16,
  wmma_gfx12_f16,
  wmma_gfx12_bf16,
};

std::string_view name(Operation operation);

// Operands of matrix operations lie in memory as {u16 a[n], u16 b[n], float c[m]}.
struct LaneState {
  unsigned thread = 0;
  unsigned workgroup[3] = {};
  // Blocks until every lane of the wave is at the same operation, then returns its result.
  void (*meet)(int operation, int immediate, const void* operands, void* result) = nullptr;
};

}  // namespace attnfuse::hip
