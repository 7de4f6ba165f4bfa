// Where the elements of a tile live: in registers of lanes (FragmentLayout) or in shared memory.
// A layout is data, so emitters, reductions and matrix operands never need to know which machine
// it describes.
#pragma once

#include <vector>

namespace attnfuse {

enum class TileAxis : unsigned char { row, col };

// One mixed-radix digit of an index: value v in [0, extent) moves the coordinate on `axis` by v*stride.
// stride 0 means that the digit does not move: the element is replicated.
struct Digit {
  int extent;
  TileAxis axis;
  int stride;
  bool operator==(const Digit&) const = default;
};

// (register, lane, warp) -> (row, col). Each index is decomposed by its digits, least significant first,
// and the coordinate on an axis is the sum of the contributions.
//
// Example, the accumulator of a 16x8 matrix product on 32 lanes:
//   registers {2,col,1} {2,row,8}    lanes {4,col,2} {8,row,1}    warps {}
struct FragmentLayout {
  std::vector<Digit> registers, lanes, warps;
  bool operator==(const FragmentLayout&) const = default;

  int register_count() const;
  int lane_count() const;
  int warp_count() const;
  int coordinate(TileAxis axis, int reg, int lane, int warp) const;
};

// Contribution of one index (given its digits) to the coordinate on `axis`.
int coordinate(const std::vector<Digit>& digits, TileAxis axis, int index);

// rows <-> columns: the layout of the transposed tile.
FragmentLayout transposed(FragmentLayout layout);

// Repeats a fragment: `cols` copies `col_step` apart, then `rows` copies `row_step` apart (register digits),
// then `warps` warps `warp_row_step` rows apart.
FragmentLayout repeated(FragmentLayout fragment, int cols, int col_step, int rows, int row_step, int warps,
                        int warp_row_step);

// The layout of the vector that holds one value per row (axis = row) or column (axis = col) of a tile with
// this layout: register digits of the other axis disappear, lane and warp digits of it replicate.
FragmentLayout vector_along(const FragmentLayout& layout, TileAxis axis);

// Which register of vector_along(layout, axis) belongs to register `reg` of layout.
int vector_register(const FragmentLayout& layout, TileAxis axis, int reg);

// Lane distances (for exclusive-or exchange) over which a value must be combined so that every lane holds
// the reduction over the axis that is not `kept`. All lane digits are powers of two.
std::vector<int> exchange_distances(const FragmentLayout& layout, TileAxis kept);

// Element (row, col) is at row*stride + col, or col*stride + row when column_major. stride is in elements
// and includes padding against bank conflicts.
// swizzled: as copy engines and matrix units want it. Panels of kSwizzleBytes by `rows`, one after the other;
// within a row of a panel, the 16-byte chunk c is at position c ^ (row % 8).
inline constexpr int kSwizzleBytes = 128, kSwizzleChunkBytes = 16;
struct SharedLayout {
  int stride = 0;
  bool column_major = false;
  bool swizzled = false;
  bool operator==(const SharedLayout&) const = default;
};

// Elements that only the matrix unit can address (cooperative matrices). warps split the rows.
struct OpaqueLayout {
  int warps = 1;
  bool operator==(const OpaqueLayout&) const = default;
};

}  // namespace attnfuse
