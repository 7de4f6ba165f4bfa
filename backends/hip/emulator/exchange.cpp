#include "backends/hip/emulator/exchange.h"

#include <fmt/format.h>

#include <cstdint>

#include "backends/hip/emulator/operation.h"

namespace attnfuse::hip {
namespace {

std::uint32_t operand(const emulator::Call& lane, int n) {
  return static_cast<const std::uint32_t*>(lane.operands)[n];
}

}  // namespace

std::string exchange(std::span<const emulator::Call> lanes) {
  const auto operation = Operation(lanes[0].operation);
  const auto immediate = std::uint32_t(lanes[0].immediate);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const std::size_t half = lane / 32 * 32, in_half = lane % 32;
    std::size_t from = lane;
    int value_at = 0;
    if (operation == Operation::bpermute) {
      from = operand(lanes[lane], 0) / 4 % lanes.size();
      value_at = 1;
    } else if (operation == Operation::swizzle) {
      if ((immediate & 0x8000U) != 0) return "ds_swizzle outside its bit-mask mode";
      from = half + ((in_half & (immediate & 31U)) | (immediate >> 5 & 31U)) % 32;
      from = half + ((from - half) ^ (immediate >> 10 & 31U));
    } else if (operation == Operation::quad) {
      if (immediate > 0xffU) return fmt::format("dpp control {:#x} is no quad permutation", immediate);
      from = lane / 4 * 4 + (immediate >> 2 * (lane % 4) & 3U);
    } else if (operation == Operation::permlane16x) {
      const std::size_t row = in_half % 16;
      const std::uint32_t select = operand(lanes[lane], row < 8 ? 1 : 2) >> 4 * (row % 8) & 15U;
      from = half + (in_half < 16 ? 16 : 0) + select;
    } else {
      from = 0;  // first_lane
    }
    if (from >= lanes.size()) return fmt::format("lane {} reads lane {} of {}", lane, from, lanes.size());
    *static_cast<std::uint32_t*>(lanes[lane].result) = operand(lanes[from], value_at);
  }
  return {};
}

}  // namespace attnfuse::hip
