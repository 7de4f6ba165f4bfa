// Layouts as index arithmetic: which row and column a thread's register holds.
#include <fmt/format.h>

#include "backends/common/tile_writer.h"

namespace attnfuse {
namespace {

int total(const std::vector<Digit>& digits) {
  int count = 1;
  for (const Digit& digit : digits) count *= digit.extent;
  return count;
}

// (index / divisor) % extent, without what is the identity.
std::string digit_text(const std::string& index, int divisor, int extent, int count) {
  std::string text = index;
  if (divisor > 1) text += fmt::format(" / {}", divisor);
  if (divisor * extent < count) text += fmt::format(" % {}", extent);
  return text;
}

std::string sum(const std::vector<std::string>& terms) {
  std::string result = "0";
  for (const std::string& term : terms) result = plus(result, term);
  return result;
}

}  // namespace

std::string times(const std::string& text, int factor) {
  return factor == 1 ? text : fmt::format("{} * {}", text, factor);
}

std::string plus(const std::string& a, const std::string& b) {
  return a == "0" ? b : b == "0" ? a : a + " + " + b;
}

std::string digit_sum(const std::vector<Digit>& digits, TileAxis axis, const std::string& index) {
  std::vector<std::string> terms;
  const int count = total(digits);
  int divisor = 1;
  for (const Digit& digit : digits) {
    if (digit.axis == axis && digit.extent > 1 && digit.stride != 0)
      terms.push_back(times(digit_text(index, divisor, digit.extent, count), digit.stride));
    divisor *= digit.extent;
  }
  return sum(terms);
}

std::string one_lane_condition(const FragmentLayout& layout) {
  const int count = total(layout.lanes);
  std::string condition;
  int divisor = 1;
  for (const Digit& digit : layout.lanes) {
    if (digit.stride == 0 && digit.extent > 1)
      condition += fmt::format("{}{} == 0", condition.empty() ? "" : " && ",
                               digit_text("lane", divisor, digit.extent, count));
    divisor *= digit.extent;
  }
  return condition;
}

std::string TileWriter::thread_position(const Tile& tile, TileAxis axis) const {
  const auto& layout = std::get<FragmentLayout>(tile.layout);
  const std::string text = plus(digit_sum(layout.lanes, axis, "lane"), digit_sum(layout.warps, axis, "warp"));
  const auto found = lane_parts_.find(text);
  return found != lane_parts_.end() ? found->second : text;
}

std::string TileWriter::register_position(const Tile& tile, TileAxis axis, const std::string& reg) const {
  return digit_sum(std::get<FragmentLayout>(tile.layout).registers, axis, reg);
}

std::string TileWriter::position(const Tile& tile, TileAxis axis, const std::string& reg) const {
  return plus(thread_position(tile, axis), register_position(tile, axis, reg));
}

std::string TileWriter::vector_index(const Tile& over, TileAxis axis, const std::string& reg) const {
  const auto& layout = std::get<FragmentLayout>(over.layout);
  const int count = total(layout.registers);
  std::vector<std::string> terms;
  int divisor = 1, kept = 1;
  for (const Digit& digit : layout.registers) {
    if (digit.axis == axis && digit.stride != 0) {
      if (digit.extent > 1) terms.push_back(times(digit_text(reg, divisor, digit.extent, count), kept));
      kept *= digit.extent;
    }
    divisor *= digit.extent;
  }
  return sum(terms);
}

std::string TileWriter::shared_index(const Tile& tile, const std::string& row, const std::string& col) {
  const auto& layout = std::get<SharedLayout>(tile.layout);
  if (layout.swizzled) {
    const int chunk = kSwizzleChunkBytes / size_in_bytes(tile.type),
              panel = kSwizzleBytes / size_in_bytes(tile.type);
    return fmt::format("af_swizzled<{}, {}, {}>({}, {})", tile.rows, panel, chunk, row, col);
  }
  const bool major = layout.column_major;
  const std::string& slow = major ? col : row;
  const std::string& fast = major ? row : col;
  const auto grouped = [](const std::string& text) {
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
  };
  if (tile.cols == 1 && !major)
    return fast == "0" ? times(grouped(slow), layout.stride)
                       : fmt::format("{} + {}", times(grouped(slow), layout.stride), fast);
  return fmt::format("{} + {}", times(grouped(slow), layout.stride), fast);
}

void TileWriter::open_loop(const std::string& header) {
  if (const std::string unroll = dialect_.unroll(); !unroll.empty()) out_.line(unroll);
  out_.open(header);
}

void TileWriter::open_registers(int count, const std::string& variable) {
  open_loop(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", variable, count));
}

std::string TileWriter::array_of(const Tile& tile) const {
  const TileId id{int(&tile - program_.tiles.data())};
  for (const Channel& channel : program_.channels) {
    if (channel.slots == 1 || !channel.tile.valid()) continue;
    if (channel.tile != id && channel.tile != tile.memory_of) continue;
    return fmt::format("({} + {}_slot * {})", tile.name, channel.name,
                       slot_bytes(program_.tile(channel.tile)) / size_in_bytes(tile.type));
  }
  return tile.name;
}

}  // namespace attnfuse
