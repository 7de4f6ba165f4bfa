#include "ir/layout.h"

#include <map>
#include <random>
#include <set>

#include <doctest/doctest.h>

#include "ir/diagnostic.h"

namespace attnfuse {
namespace {

constexpr unsigned kSeed = 7;

using Place = std::pair<int, int>;  // row, col

Place place(const FragmentLayout& layout, int reg, int lane, int warp) {
  return {layout.coordinate(TileAxis::row, reg, lane, warp),
          layout.coordinate(TileAxis::col, reg, lane, warp)};
}

// The accumulator of a 16x8 product on 32 lanes, as its manual describes it.
const FragmentLayout kAccumulator{
    {{2, TileAxis::col, 1}, {2, TileAxis::row, 8}}, {{4, TileAxis::col, 2}, {8, TileAxis::row, 1}}, {}};

TEST_CASE("the accumulator of a 16x8 product is where the manual says") {
  REQUIRE(kAccumulator.register_count() == 4);
  REQUIRE(kAccumulator.lane_count() == 32);
  REQUIRE(kAccumulator.warp_count() == 1);
  for (int lane = 0; lane < 32; ++lane)
    for (int reg = 0; reg < 4; ++reg)
      CHECK(place(kAccumulator, reg, lane, 0) ==
            Place(lane / 4 + (reg >= 2 ? 8 : 0), lane % 4 * 2 + reg % 2));
}

TEST_CASE("repeating a fragment tiles the plane without gaps") {
  const FragmentLayout layout = repeated(kAccumulator, 3, 8, 2, 16, 4, 32);
  std::map<Place, int> hits;
  for (int warp = 0; warp < layout.warp_count(); ++warp)
    for (int lane = 0; lane < layout.lane_count(); ++lane)
      for (int reg = 0; reg < layout.register_count(); ++reg) ++hits[place(layout, reg, lane, warp)];
  CHECK(hits.size() == 128 * 24);
  for (const auto& [at, count] : hits) {
    CHECK(count == 1);
    CHECK(at.first < 128);
    CHECK(at.second < 24);
  }
  CHECK(place(layout, 4, 0, 0) == Place(0, 8));
  CHECK(place(layout, 12, 0, 0) == Place(16, 0));
  CHECK(place(layout, 0, 0, 3) == Place(96, 0));
  CHECK(repeated(kAccumulator, 1, 8, 1, 16, 1, 16) == kAccumulator);
}

// A layout of random power-of-two digits that reaches every element of its tile exactly once, up to
// replication.
FragmentLayout random_layout(std::mt19937& engine) {
  FragmentLayout layout;
  int next[2] = {1, 1};
  const auto draw = [&](int bound) { return std::uniform_int_distribution(0, bound - 1)(engine); };
  for (std::vector<Digit>* digits : {&layout.registers, &layout.lanes, &layout.warps})
    for (int k = draw(4); k > 0; --k) {
      const TileAxis axis = draw(2) == 0 ? TileAxis::row : TileAxis::col;
      const int extent = 2 << draw(2);
      const bool replicate = digits != &layout.registers && draw(4) == 0;
      int& stride = next[axis == TileAxis::row ? 0 : 1];
      digits->push_back({extent, axis, replicate ? 0 : stride});
      if (!replicate) stride *= extent;
    }
  return layout;
}

TEST_CASE("transposing swaps rows and columns everywhere") {
  std::mt19937 engine(kSeed);
  for (int trial = 0; trial < 50; ++trial) {
    const FragmentLayout layout = random_layout(engine);
    const FragmentLayout other = transposed(layout);
    for (int lane = 0; lane < layout.lane_count(); ++lane)
      for (int reg = 0; reg < layout.register_count(); ++reg) {
        const Place a = place(layout, reg, lane, 0);
        const Place b = place(other, reg, lane, 0);
        CHECK(Place(b.second, b.first) == a);
      }
    CHECK(transposed(other) == layout);
  }
}

TEST_CASE("the vector along an axis holds each lane's elements once, and vector_register finds them") {
  std::mt19937 engine(kSeed);
  for (int trial = 0; trial < 100; ++trial) {
    CAPTURE(trial);
    const FragmentLayout layout = random_layout(engine);
    for (TileAxis axis : {TileAxis::row, TileAxis::col}) {
      const TileAxis other = axis == TileAxis::row ? TileAxis::col : TileAxis::row;
      const FragmentLayout vector = vector_along(layout, axis);
      REQUIRE(vector.lane_count() == layout.lane_count());
      REQUIRE(vector.warp_count() == layout.warp_count());
      for (int warp = 0; warp < layout.warp_count(); ++warp)
        for (int lane = 0; lane < layout.lane_count(); ++lane) {
          std::set<int> wanted, held;
          for (int reg = 0; reg < layout.register_count(); ++reg) {
            wanted.insert(layout.coordinate(axis, reg, lane, warp));
            const int at = vector_register(layout, axis, reg);
            REQUIRE(at < vector.register_count());
            REQUIRE(vector.coordinate(axis, at, lane, warp) == layout.coordinate(axis, reg, lane, warp));
          }
          for (int reg = 0; reg < vector.register_count(); ++reg) {
            held.insert(vector.coordinate(axis, reg, lane, warp));
            REQUIRE(vector.coordinate(other, reg, lane, warp) == 0);
          }
          REQUIRE(held == wanted);
          REQUIRE(int(held.size()) == vector.register_count());
        }
    }
  }
}

TEST_CASE("exchanging over the distances leaves every lane with its whole row or column") {
  std::mt19937 engine(kSeed);
  for (int trial = 0; trial < 100; ++trial) {
    CAPTURE(trial);
    const FragmentLayout layout = random_layout(engine);
    const int lanes = layout.lane_count();
    for (TileAxis kept : {TileAxis::row, TileAxis::col}) {
      const auto along = [&](int reg, int lane) { return layout.coordinate(kept, reg, lane, 0); };
      const FragmentLayout vector = vector_along(layout, kept);
      // Sums per lane of a different number at every place, then over lanes.
      const auto number = [](Place at) { return double(at.first) * 1000 + at.second * at.second + 1; };
      std::vector<std::vector<double>> sums(std::size_t(lanes),
                                            std::vector<double>(std::size_t(vector.register_count())));
      std::map<int, std::map<Place, double>> elements;  // by kept coordinate
      for (int lane = 0; lane < lanes; ++lane)
        for (int reg = 0; reg < layout.register_count(); ++reg) {
          const Place at = place(layout, reg, lane, 0);
          sums[std::size_t(lane)][std::size_t(vector_register(layout, kept, reg))] += number(at);
          elements[along(reg, lane)][at] = number(at);
        }
      for (int distance : exchange_distances(layout, kept)) {
        const auto before = sums;
        for (std::size_t lane = 0; lane < sums.size(); ++lane)
          for (std::size_t reg = 0; reg < sums[lane].size(); ++reg)
            sums[lane][reg] += before[lane ^ std::size_t(distance)][reg];
      }
      for (int lane = 0; lane < lanes; ++lane)
        for (int reg = 0; reg < vector.register_count(); ++reg) {
          double wanted = 0;
          for (const auto& [at, value] : elements[vector.coordinate(kept, reg, lane, 0)]) wanted += value;
          REQUIRE(sums[std::size_t(lane)][std::size_t(reg)] == wanted);
        }
    }
  }
}

TEST_CASE("exchange distances need lane digits that are powers of two") {
  const FragmentLayout layout{{}, {{3, TileAxis::col, 1}}, {}};
  CHECK_THROWS_AS(exchange_distances(layout, TileAxis::row), InternalError);
  CHECK(exchange_distances(kAccumulator, TileAxis::row) == std::vector{1, 2});
  CHECK(exchange_distances(kAccumulator, TileAxis::col) == std::vector{4, 8, 16});
}

}  // namespace
}  // namespace attnfuse
