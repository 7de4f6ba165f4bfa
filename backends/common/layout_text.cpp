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

std::string scaled(const std::string& text, int factor) {
  return factor == 1 ? text : fmt::format("{} * {}", text, factor);
}

std::string sum(const std::vector<std::string>& terms) {
  if (terms.empty()) return "0";
  std::string result = terms[0];
  for (std::size_t k = 1; k < terms.size(); ++k) result += " + " + terms[k];
  return result;
}

}  // namespace

std::string digit_sum(const std::vector<Digit>& digits, TileAxis axis, const std::string& index) {
  std::vector<std::string> terms;
  const int count = total(digits);
  int divisor = 1;
  for (const Digit& digit : digits) {
    if (digit.axis == axis && digit.extent > 1 && digit.stride != 0)
      terms.push_back(scaled(digit_text(index, divisor, digit.extent, count), digit.stride));
    divisor *= digit.extent;
  }
  return sum(terms);
}

std::string TileWriter::position(const Tile& tile, TileAxis axis, const std::string& reg) {
  const auto& layout = std::get<FragmentLayout>(tile.layout);
  std::vector<std::string> terms;
  const std::string lanes = digit_sum(layout.lanes, axis, "lane");
  const std::string warps = digit_sum(layout.warps, axis, "warp");
  const std::string thread_part = lanes == "0" ? warps : warps == "0" ? lanes : lanes + " + " + warps;
  if (thread_part != "0") {
    const auto found = lane_parts_.find(thread_part);
    terms.push_back(found != lane_parts_.end() ? found->second : thread_part);
  }
  const std::string registers = digit_sum(layout.registers, axis, reg);
  if (registers != "0") terms.push_back(registers);
  return sum(terms);
}

std::string TileWriter::coordinate(const Tile& tile, TileAxis axis, const std::string& reg) {
  const std::string& base = axis == TileAxis::row ? tile.row.base : tile.col.base;
  const std::string local = position(tile, axis, reg);
  if (base.empty()) return local;
  return local == "0" ? base : base + " + " + local;
}

std::string TileWriter::vector_index(const Tile& over, TileAxis axis, const std::string& reg) const {
  const auto& layout = std::get<FragmentLayout>(over.layout);
  const int count = total(layout.registers);
  std::vector<std::string> terms;
  int divisor = 1, kept = 1;
  for (const Digit& digit : layout.registers) {
    if (digit.axis == axis && digit.stride != 0) {
      if (digit.extent > 1) terms.push_back(scaled(digit_text(reg, divisor, digit.extent, count), kept));
      kept *= digit.extent;
    }
    divisor *= digit.extent;
  }
  return sum(terms);
}

std::string TileWriter::shared_index(const Tile& tile, const std::string& row, const std::string& col) {
  const auto& layout = std::get<SharedLayout>(tile.layout);
  const bool major = layout.column_major;
  const std::string& slow = major ? col : row;
  const std::string& fast = major ? row : col;
  const auto grouped = [](const std::string& text) {
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
  };
  if (tile.cols == 1 && !major)
    return fast == "0" ? scaled(grouped(slow), layout.stride)
                       : fmt::format("{} + {}", scaled(grouped(slow), layout.stride), fast);
  return fmt::format("{} + {}", scaled(grouped(slow), layout.stride), fast);
}

void TileWriter::open_loop(const std::string& header) {
  if (const std::string unroll = dialect_.unroll(); !unroll.empty()) out_.line(unroll);
  out_.open(header);
}

void TileWriter::open_registers(int count, const std::string& variable) {
  open_loop(fmt::format("for (int {0} = 0; {0} < {1}; ++{0})", variable, count));
}

}  // namespace attnfuse
