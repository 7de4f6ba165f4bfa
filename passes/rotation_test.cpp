#include "passes/rotation.h"

#include <doctest/doctest.h>

#include "frontend/parser.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

constexpr const char* kRope = "query rope(theta = 10000) key rope(theta = 10000) ";

Graph passed(const std::string& body, int heads = 32, int kv_heads = 8) {
  const std::string text = "attention t { heads " + std::to_string(heads) + " kv_heads " +
                           std::to_string(kv_heads) + " head_dim 128 dtype bf16 " + body + " }";
  auto graph = parse_one(text);
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), text));
  auto result = run_graph_passes(*graph);
  REQUIRE(result.ok());
  return std::move(result).value();
}

// A machine of round numbers.
Target machine() {
  Target t;
  t.name = t.backend = t.arch = t.title = "imagined";
  t.rates.cores = 100;
  t.rates.matrix_tflops = 500;
  t.rates.scalar_tops = 20;
  t.rates.special_tops = 2;
  t.rates.shared_tbps = 20;
  t.rates.memory_gbps = 2000;
  t.rates.launch_us = 3;
  return t;
}

Schedule tiles(int groups = 0) {
  Schedule s;
  s.block_q = 128;
  s.block_k = 64;
  s.groups = groups;
  return s;
}

std::vector<RotationCost> costs_of(const Graph& graph, const Target& target, const Schedule& schedule,
                                   const CallSizes& sizes) {
  RotationSchedules schedules;
  for (Rotation rotation : distinct_rotations(graph)) schedules[rotation] = schedule;
  return rotation_costs(graph, target, schedules, sizes);
}

const RotationCost& cost_of(const std::vector<RotationCost>& costs, Rotation rotation, bool cached = false) {
  for (const RotationCost& cost : costs)
    if (cost.rotation == rotation && cost.cached == cached) return cost;
  FAIL("no such choice");
  return costs.front();
}

// By looking at every tile.
template <class Visits>
double counted(const Schedule& schedule, std::int64_t sq, std::int64_t skv, Visits visits) {
  double count = 0;
  for (std::int64_t q = 0; q < sq; q += schedule.block_q)
    for (std::int64_t k = 0; k < skv; k += schedule.block_k) {
      bool seen = false;
      for (std::int64_t i = q; i < std::min(q + schedule.block_q, sq); ++i)
        for (std::int64_t j = k; j < std::min(k + schedule.block_k, skv); ++j) seen |= visits(i, j);
      count += seen;
    }
  return count;
}

}  // namespace

TEST_CASE("visited tiles are those with an allowed pair") {
  Schedule schedule = tiles();
  schedule.block_q = 16;
  schedule.block_k = 8;
  for (const CallSizes& sizes : {CallSizes{2, 50, 50}, CallSizes{1, 33, 70}, CallSizes{1, 1, 40}}) {
    const double heads = double(sizes.batch) * 32;
    const std::int64_t shift = sizes.skv - sizes.sq;
    CHECK(visited_tiles(passed(""), schedule, sizes) ==
          heads * counted(schedule, sizes.sq, sizes.skv, [](auto, auto) { return true; }));
    CHECK(visited_tiles(passed("mask causal"), schedule, sizes) ==
          heads * counted(schedule, sizes.sq, sizes.skv, [&](auto i, auto j) { return j <= i + shift; }));
    CHECK(visited_tiles(passed("mask window(9)"), schedule, sizes) ==
          heads * counted(schedule, sizes.sq, sizes.skv,
                          [&](auto i, auto j) { return j <= i + shift && i + shift - j < 9; }));
    CHECK(visited_tiles(passed("mask j < 5 || j >= 30"), schedule, sizes) ==
          heads * counted(schedule, sizes.sq, sizes.skv, [](auto, auto j) { return j < 5 || j >= 30; }));
  }
}

TEST_CASE("a pre-pass computes fewer operations per element than attention does") {
  for (const char* body : {"key rope(theta = 10000)", "key rope(theta = 10000, pairs = interleaved)",
                           "key rope(theta = 10000, dims = 64)"}) {
    const Graph graph = passed(body);
    CHECK(split_operations(graph, TensorRole::key) * 2 < fused_operations(graph, TensorRole::key));
  }
}

TEST_CASE("fused keys cost what every query tile of every head spends on them") {
  const Graph graph = passed(kRope);
  const Graph plain = passed("");
  const Target target = machine();
  const CallSizes sizes{1, 1024, 2048};
  const auto costs = costs_of(graph, target, tiles(), sizes);
  const double alone = cost_of(costs_of(plain, target, tiles(), sizes), Rotation::fuse).attention_us;
  CHECK(cost_of(costs, Rotation::both).attention_us == doctest::Approx(alone));
  // 32 heads, 8 query tiles each, 2048 keys of 128 elements.
  const double elements = 32.0 * 8 * 2048 * 128;
  const double operations = elements * fused_operations(graph, TensorRole::key) / 20e12 * 1e6;
  const double copy = elements * 2 / 2e12 * 1e6;
  CHECK(cost_of(costs, Rotation::query).attention_us == doctest::Approx(alone + operations + copy));
}

TEST_CASE("a pre-pass costs a launch and two passes through memory") {
  const Graph graph = passed(kRope);
  const auto costs = costs_of(graph, machine(), tiles(), {4, 4096, 4096});
  const double key_bytes = 2.0 * 2 * 4 * 8 * 4096 * 128;
  CHECK(cost_of(costs, Rotation::key).key_us == doctest::Approx(3 + key_bytes / 2e12 * 1e6));
  CHECK(cost_of(costs, Rotation::both).query_us == doctest::Approx(3 + 4 * key_bytes / 2e12 * 1e6));
  CHECK(cost_of(costs, Rotation::key).query_us == 0);
}

TEST_CASE("long prefills take the pre-pass for keys, and a few keys are rotated where they are used") {
  const Graph graph = passed(std::string(kRope) + "mask causal");
  for (int groups : {0, 2}) {
    const auto choice = [&](const CallSizes& sizes) {
      return choose_rotation(costs_of(graph, machine(), tiles(groups), sizes));
    };
    const Rotation prefill = choice({1, 16384, 16384});
    CHECK((prefill == Rotation::key || prefill == Rotation::both));
    // A tile of keys is worth a launch to few warps, not to all.
    if (groups == 0) CHECK(choice({1, 1, 64}) == Rotation::fuse);
  }
}

TEST_CASE("with roles, fused keys cost less as long as they fit beside the products") {
  const Graph graph = passed("key x * 0.5");
  const Target target = machine();
  const CallSizes sizes{1, 4096, 4096};
  const double direct = cost_of(costs_of(graph, target, tiles(0), sizes), Rotation::fuse).attention_us;
  Target same_share = target;
  same_share.rates.pipeline_share = same_share.rates.portable_share;
  CHECK(cost_of(costs_of(graph, same_share, tiles(2), sizes), Rotation::fuse).attention_us < direct);
}

TEST_CASE("a cache of rotated keys needs the new ones only") {
  const auto costs = costs_of(passed(kRope), machine(), tiles(), {8, 1, 8192});
  CHECK(cost_of(costs, Rotation::key, true).key_us < 3.1);
  CHECK(cost_of(costs, Rotation::key).key_us > 30);
  CHECK(choose_rotation(costs) != Rotation::automatic);
}

TEST_CASE("only choices that differ are in the table") {
  const auto count = [](const char* body) {
    int rows = 0;
    for (const RotationCost& cost : costs_of(passed(body), machine(), tiles(), {1, 64, 64}))
      rows += !cost.cached;
    return rows;
  };
  CHECK(count("") == 1);
  CHECK(count("value x * 0.5") == 1);
  CHECK(count("query rope(theta = 10000)") == 2);
  CHECK(count("key rope(theta = 10000)") == 2);
  CHECK(count(kRope) == 4);
  CHECK(count((std::string(kRope) + " output differential(0.5)").c_str()) == 1);  // two of each tensor
}

TEST_CASE("every choice has a name that finds it") {
  for (const RotationInfo& row : rotations()) {
    CHECK(rotation_from_name(row.name) == row.rotation);
    CHECK(name(row.rotation) == row.name);
  }
  CHECK(!rotation_from_name("none"));
}

}  // namespace attnfuse
