#include "backends/hip/targets.h"

#include <doctest/doctest.h>

#include <set>
#include <tuple>

namespace attnfuse::hip {
namespace {

const MatrixUnit& unit_of(const std::vector<Target>& all, const std::string& arch) {
  for (const Target& t : all)
    if (t.arch == arch) return t.units.front();
  FAIL("no target");
  return all.front().units.front();
}

struct Cell {
  int lane, element;
  auto operator<=>(const Cell&) const = default;
};

int row(const FragmentLayout& layout, Cell at) {
  return layout.coordinate(TileAxis::row, at.element, at.lane, 0);
}
int col(const FragmentLayout& layout, Cell at) {
  return layout.coordinate(TileAxis::col, at.element, at.lane, 0);
}

// The instruction: slot of operand index i and of k, and place of d[m][n], as AMD's documents have them.
struct Formula {
  int mn, k, lanes, operand_elements, result_elements;
  int (*index_of)(Cell);
  int (*k_of)(Cell);
  int (*m_of)(Cell);
  int (*n_of)(Cell);
};

constexpr Formula kMfma32{32,
                          8,
                          64,
                          4,
                          16,
                          [](Cell c) { return c.lane % 32; },
                          [](Cell c) { return 4 * (c.lane / 32) + c.element; },
                          [](Cell c) { return 8 * (c.element / 4) + 4 * (c.lane / 32) + c.element % 4; },
                          [](Cell c) { return c.lane % 32; }};
constexpr Formula kWmma{16,
                        16,
                        32,
                        16,
                        8,
                        [](Cell c) { return c.lane % 16; },
                        [](Cell c) { return c.element; },
                        [](Cell c) { return 2 * c.element + c.lane / 16; },
                        [](Cell c) { return c.lane % 16; }};
constexpr Formula kWmma12{16,
                          16,
                          32,
                          8,
                          8,
                          [](Cell c) { return c.lane % 16; },
                          [](Cell c) { return 8 * (c.lane / 16) + c.element; },
                          [](Cell c) { return 8 * (c.lane / 16) + c.element; },
                          [](Cell c) { return c.lane % 16; }};

// One instruction of the leaf: elements [first, first + operand_elements) of both operands. Every product it
// forms must be a product of the unit: equal k, and the result where the accumulator layout says.
void check(const MatrixUnit& unit, const Formula& f) {
  const int instructions = unit.k / f.k;
  CHECK(unit.a.register_count() == f.operand_elements * instructions);
  CHECK(unit.b.register_count() == f.operand_elements * instructions);
  CHECK(unit.accumulator.register_count() == f.result_elements);
  std::set<std::pair<int, int>> results;
  std::set<std::tuple<int, int, int>> products;
  for (int lane = 0; lane < f.lanes; ++lane)
    for (int r = 0; r < f.result_elements; ++r) {
      const Cell d{lane, r};
      results.insert({row(unit.accumulator, d), col(unit.accumulator, d)});
      for (int step = 0; step < instructions; ++step)
        for (int la = 0; la < f.lanes; ++la) {
          if (f.index_of({la, 0}) != f.m_of(d)) continue;
          for (int lb = 0; lb < f.lanes; ++lb) {
            if (f.index_of({lb, 0}) != f.n_of(d)) continue;
            for (int ea = 0; ea < f.operand_elements; ++ea)
              for (int eb = 0; eb < f.operand_elements; ++eb) {
                if (f.k_of({la, ea}) != f.k_of({lb, eb})) continue;
                const Cell a{la, ea + step * f.operand_elements}, b{lb, eb + step * f.operand_elements};
                CHECK(col(unit.a, a) == col(unit.b, b));
                CHECK(row(unit.a, a) == row(unit.accumulator, d));
                CHECK(row(unit.b, b) == col(unit.accumulator, d));
                products.insert({row(unit.a, a), row(unit.b, b), col(unit.a, a)});
              }
          }
        }
    }
  CHECK(int(results.size()) == unit.m * unit.n);
  CHECK(int(products.size()) == unit.m * unit.n * unit.k);
}

}  // namespace

TEST_CASE("the layouts of matrix units agree with AMD's instructions") {
  const std::vector<Target> all = targets();
  for (const char* arch : {"gfx90a", "gfx942"}) check(unit_of(all, arch), kMfma32);
  check(unit_of(all, "gfx1100"), kWmma);
  check(unit_of(all, "gfx1201"), kWmma12);
}

TEST_CASE("packed scores are the second operand of the next product, half a wave at a time") {
  for (const Target& t : targets()) {
    const MatrixUnit& unit = t.units.front();
    if (unit.is_fma()) continue;
    CAPTURE(t.name);
    const int elements = unit.k * unit.n / t.warp_size;
    const int groups = unit.accumulator.register_count() / elements;  // of k = 16 rows
    for (int lane = 0; lane < t.warp_size; ++lane)
      for (int group = 0; group < groups; ++group)
        for (int e = 0; e < elements; ++e) {
          const Cell score{lane, group * elements + e};
          CHECK(row(unit.accumulator, score) == unit.k * group + 8 * (lane / unit.n) + e);
          CHECK(col(unit.accumulator, score) == row(unit.b, {lane, 0}));
        }
  }
}

TEST_CASE("emulated machines differ from the real ones in name alone") {
  const std::vector<Target> real = targets("hip"), emulated = targets("hip-cpu");
  REQUIRE(real.size() == emulated.size());
  for (std::size_t n = 0; n < real.size(); ++n) {
    CHECK(emulated[n].name == "hip-cpu:" + real[n].arch);
    CHECK(emulated[n].arch == real[n].arch);
    CHECK(emulated[n].warp_size == real[n].warp_size);
    CHECK(emulated[n].units.size() == real[n].units.size());
  }
}

}  // namespace attnfuse::hip
