// The operand layouts of mma.sync against the PTX ISA's formulas, written out here.
#include <doctest/doctest.h>

#include "backends/cuda/targets.h"

using namespace attnfuse;

TEST_CASE("mma.sync m16n8k16 layouts follow the PTX ISA's fragment formulas") {
  for (const Target& target : cuda::targets()) {
    const MatrixUnit& unit = matrix_unit(target, DType::f16);
    REQUIRE(unit.m == 16);
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane >> 2, in_group = lane % 4;
      for (int i = 0; i < 8; ++i) {
        const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
        const int col = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
        CHECK(unit.a.coordinate(TileAxis::row, i, lane, 0) == row);
        CHECK(unit.a.coordinate(TileAxis::col, i, lane, 0) == col);
      }
      for (int i = 0; i < 4; ++i) {
        CHECK(unit.b.coordinate(TileAxis::row, i, lane, 0) == group);
        CHECK(unit.b.coordinate(TileAxis::col, i, lane, 0) == in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0));
        CHECK(unit.accumulator.coordinate(TileAxis::row, i, lane, 0) == (i < 2 ? group : group + 8));
        CHECK(unit.accumulator.coordinate(TileAxis::col, i, lane, 0) == in_group * 2 + (i & 1));
      }
    }
  }
}
