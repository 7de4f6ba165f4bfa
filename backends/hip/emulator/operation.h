// What a lane hands over when it meets the others of its wave. builtins.cpp repeats the numbers as text.
#pragma once

#include <cstdint>
#include <string_view>

namespace attnfuse::hip {

enum class Operation : std::uint8_t {
  workgroup_barrier,
  wave_barrier,
  bpermute,     // {i32 lane * 4, u32 value} -> u32
  swizzle,      // {u32 value}, immediate: and | or << 5 | xor << 10, within 32 lanes
  quad,         // {u32 value}, immediate: four 2-bit selectors within 4 lanes
  permlane16x,  // {u32 value, u32 low selectors, u32 high selectors}: a lane of the other half of 32
  first_lane,   // {u32 value} -> the first lane's
  // Operands in memory: {u16 a[n], u16 b[n], float c[m]}.
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

}  // namespace attnfuse::hip
