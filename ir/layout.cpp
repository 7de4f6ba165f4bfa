#include "ir/layout.h"

#include <numeric>

#include "ir/diagnostic.h"

namespace attnfuse {
namespace {

int product(const std::vector<Digit>& digits) {
  return std::accumulate(digits.begin(), digits.end(), 1,
                         [](int n, const Digit& digit) { return n * digit.extent; });
}

// A digit of extent 1 says nothing: leaving it out keeps equal layouts equal.
void append(std::vector<Digit>& digits, Digit digit) {
  if (digit.extent > 1) digits.push_back(digit);
}

std::vector<Digit> replicated(std::vector<Digit> digits, TileAxis kept) {
  for (Digit& digit : digits)
    if (digit.axis != kept) digit.stride = 0;
  return digits;
}

}  // namespace

int FragmentLayout::register_count() const { return product(registers); }
int FragmentLayout::lane_count() const { return product(lanes); }
int FragmentLayout::warp_count() const { return product(warps); }

int FragmentLayout::coordinate(TileAxis axis, int reg, int lane, int warp) const {
  return attnfuse::coordinate(registers, axis, reg) + attnfuse::coordinate(lanes, axis, lane) +
         attnfuse::coordinate(warps, axis, warp);
}

int coordinate(const std::vector<Digit>& digits, TileAxis axis, int index) {
  int position = 0;
  for (const Digit& digit : digits) {
    if (digit.axis == axis) position += index % digit.extent * digit.stride;
    index /= digit.extent;
  }
  return position;
}

FragmentLayout transposed(FragmentLayout layout) {
  for (std::vector<Digit>* digits : {&layout.registers, &layout.lanes, &layout.warps})
    for (Digit& digit : *digits) digit.axis = digit.axis == TileAxis::row ? TileAxis::col : TileAxis::row;
  return layout;
}

FragmentLayout repeated(FragmentLayout fragment, int cols, int col_step, int rows, int row_step, int warps,
                        int warp_row_step) {
  append(fragment.registers, {cols, TileAxis::col, col_step});
  append(fragment.registers, {rows, TileAxis::row, row_step});
  append(fragment.warps, {warps, TileAxis::row, warp_row_step});
  return fragment;
}

FragmentLayout vector_along(const FragmentLayout& layout, TileAxis axis) {
  FragmentLayout vector{{}, replicated(layout.lanes, axis), replicated(layout.warps, axis)};
  for (const Digit& digit : layout.registers)
    if (digit.axis == axis) vector.registers.push_back(digit);
  return vector;
}

int vector_register(const FragmentLayout& layout, TileAxis axis, int reg) {
  int result = 0;
  int weight = 1;
  for (const Digit& digit : layout.registers) {
    if (digit.axis == axis) {
      result += reg % digit.extent * weight;
      weight *= digit.extent;
    }
    reg /= digit.extent;
  }
  return result;
}

std::vector<int> exchange_distances(const FragmentLayout& layout, TileAxis kept) {
  std::vector<int> distances;
  int weight = 1;
  for (const Digit& digit : layout.lanes) {
    ATTNFUSE_CHECK((digit.extent & (digit.extent - 1)) == 0, "a lane digit is not a power of two");
    // Lanes that replicate an element (stride 0) already agree.
    if (digit.axis != kept && digit.stride != 0)
      for (int step = 1; step < digit.extent; step *= 2) distances.push_back(weight * step);
    weight *= digit.extent;
  }
  return distances;
}

}  // namespace attnfuse
