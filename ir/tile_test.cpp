// verify() of tile programs: each rule, broken on purpose, is reported.
#include "ir/tile.h"

#include <doctest/doctest.h>

using namespace attnfuse;

namespace {

Tile registers(const char* name, int rows, int cols, FragmentLayout layout) {
  return {name, DType::f32,           Space::registers,     rows,
          cols, {Axis::i, "q_begin"}, {Axis::j, "k_begin"}, std::move(layout)};
}
Tile shared(const char* name, int rows, int cols, int stride) {
  return {name, DType::f16,           Space::shared, rows,
          cols, {Axis::j, "k_begin"}, {Axis::d, ""}, SharedLayout{stride, false}};
}

// 8 x 8 scores on 4 lanes, one warp: each lane owns two rows.
const FragmentLayout kScores{{{8, TileAxis::col, 1}, {2, TileAxis::row, 4}}, {{4, TileAxis::row, 1}}, {}};

TileProgram small() {
  TileProgram program;
  program.name = "small";
  program.target.name = "test";
  program.target.warp_size = 4;
  program.schedule.warps = 1;
  program.tiles = {registers("s", 8, 8, kScores), shared("k", 8, 16, 16), shared("q", 8, 16, 16),
                   registers("m", 8, 1, vector_along(kScores, TileAxis::row))};
  program.body = {
      {Fill{{0}, 0}}, {Mma{{0}, {2}, {1}, false}}, {RowReduce{{3}, {0}, ReduceOp::max, false, true}}};
  return program;
}

std::string only_message(const TileProgram& program) {
  const Diagnostics mistakes = verify(program);
  REQUIRE(mistakes.size() == 1);
  return mistakes.front().message;
}

}  // namespace

TEST_CASE("a sound tile program has no mistakes") { CHECK(render(verify(small())) == ""); }

TEST_CASE("a product whose shapes do not fit is reported with the shapes") {
  TileProgram program = small();
  program.tiles[1].cols = 8;
  CHECK(only_message(program) == "small: product s [8 x 8] += q [8 x 16] x k [8 x 8] does not fit");
}

TEST_CASE("a register tile must have the target's lanes") {
  TileProgram program = small();
  program.target.warp_size = 8;
  CHECK(verify(program).front().message == "small: s has 4 lanes, the target 8");
}

TEST_CASE("shared rows must not overlap") {
  TileProgram program = small();
  program.tiles[2].layout = SharedLayout{15, false};
  CHECK(only_message(program) == "small: q has rows that overlap");
}

TEST_CASE("a row reduction needs one value per row") {
  TileProgram program = small();
  program.tiles[3].rows = 4;
  CHECK(only_message(program) == "small: m must hold one value per row of s");
}

TEST_CASE("arguments must not overlap") {
  TileProgram program = small();
  program.params = {{ParamField::Kind::pointer, "q_ptr", "q", 0, Size::sq, 0},
                    {ParamField::Kind::size, "sq", "", 0, Size::sq, 4}};
  program.param_bytes = 16;
  CHECK(only_message(program) == "small: argument sq overlaps the one before it");
}

TEST_CASE("mistakes inside loops and conditions are found") {
  TileProgram program = small();
  program.tiles[1].cols = 8;
  TileLoop loop{"k_tile", "k_next", {}, {}, {}, {}, program.body};
  program.body = {{If{{}, {{loop}}}}};
  CHECK(verify(program).size() == 1);
}

TEST_CASE("a program prints one line per statement") {
  const std::string text = print(small());
  CHECK(text.find("tile s : f32 [i=8 x j=8] registers (8:col*1 2:row*4) lanes (4:row*1) warps ()\n") !=
        std::string::npos);
  CHECK(text.find("  mma s += q x k^T\n") != std::string::npos);
  CHECK(text.find("  reduce m = max of s\n") != std::string::npos);
}

namespace {

// Column of the partner, counted along the head.
int mate(const Partner& partner, int d) {
  if (d >= partner.count) return d;
  if (partner.pairs == RotaryPairs::interleaved) return d % 2 == 0 ? d + 1 : d - 1;
  return (d + partner.count / 2) % partner.count;
}

}  // namespace

TEST_CASE("paired registers hold the partners of every lane, or there are none") {
  // The accumulator of a 16 x 8 product, repeated along 128 columns; four lanes side by side.
  const FragmentLayout fragment{
      {{2, TileAxis::col, 1}, {2, TileAxis::row, 8}}, {{4, TileAxis::col, 2}, {8, TileAxis::row, 1}}, {}};
  const FragmentLayout accumulator = repeated(fragment, 16, 8, 1, 0, 1, 0);
  const FragmentLayout lanes{{{32, TileAxis::col, 4}}, {{4, TileAxis::col, 1}, {8, TileAxis::row, 1}}, {}};
  using enum RotaryPairs;
  for (const FragmentLayout& layout : {accumulator, lanes})
    for (const Partner partner :
         {Partner{half, 128}, Partner{half, 64}, Partner{half, 48}, Partner{half, 24}, Partner{half, 6},
          Partner{interleaved, 128}, Partner{interleaved, 16}, Partner{interleaved, 10}}) {
      const std::vector<int> registers = paired_registers(layout, partner);
      bool together = true;
      for (int lane = 0; lane < layout.lane_count(); ++lane)
        for (int reg = 0; reg < layout.register_count(); ++reg) {
          const int wanted = mate(partner, layout.coordinate(TileAxis::col, reg, lane, 0));
          if (!registers.empty()) {
            const int found = registers.at(std::size_t(reg));
            CHECK(layout.coordinate(TileAxis::col, found, lane, 0) == wanted);
            CHECK(layout.coordinate(TileAxis::row, found, lane, 0) ==
                  layout.coordinate(TileAxis::row, reg, lane, 0));
          }
          bool in_lane = false;
          for (int other = 0; other < layout.register_count(); ++other)
            in_lane = in_lane || layout.coordinate(TileAxis::col, other, lane, 0) == wanted;
          together = together && in_lane;
        }
      CAPTURE(partner.count);
      if (!together) CHECK(registers.empty());
    }
  CHECK_FALSE(paired_registers(accumulator, {half, 128}).empty());
  CHECK_FALSE(paired_registers(accumulator, {interleaved, 16}).empty());
  CHECK(paired_registers(accumulator, {interleaved, 10}).empty());
  CHECK(paired_registers(accumulator, {half, 24}).empty());
  CHECK_FALSE(paired_registers(lanes, {half, 24}).empty());
  CHECK(paired_registers(lanes, {interleaved, 10}).empty());
}
