#include "passes/share_keys.h"

#include <doctest/doctest.h>

#include "frontend/parser.h"
#include "runtime/executable.h"
#include "runtime/test_device.h"

namespace attnfuse {
namespace {

Graph parsed(const std::string& body) {
  const auto graph = parse_one("attention t { heads 8 kv_heads 2 head_dim 64 dtype f16 " + body + " }");
  REQUIRE(graph.ok());
  return *graph;
}

Target units(int count) {
  Target target;
  target.compute_units = count;
  return target;
}

}  // namespace

TEST_CASE("keys are divided until every unit has work, and no share is short") {
  ProgramInfo info;
  info.heads = info.kv_heads = 8;
  CHECK(key_shares(info, units(132), 1, 4, 131072) == 16);
  CHECK(key_shares(info, units(132), 16, 4, 131072) == 1);
  CHECK(key_shares(info, units(132), 17, 4, 131072) == 1);
  CHECK(key_shares(info, units(132), 1, 200, 131072) == 4);  // four tiles of rows a head
  CHECK(key_shares(info, units(132), 1, 4, 1500) == 2);
  CHECK(key_shares(info, units(132), 1, 4, 511) == 1);
  CHECK(key_shares(info, units(132), 1, 4, 0) == 1);
  CHECK(key_shares(info, units(132), 0, 0, 4096) >= 1);
}

TEST_CASE("a driver that ends long loops gets shares that it finishes") {
  ProgramInfo info;
  info.head_dim = 64;
  info.v_head_dim = 128;
  Target target = units(1);
  target.most_key_elements = 12800;
  CHECK(key_shares(info, target, 5, 1000, 100) == 1);
  CHECK(key_shares(info, target, 5, 1000, 101) == 2);
  CHECK(key_shares(info, target, 5, 1000, 1000) == 10);
}

TEST_CASE("what comes after the second product, or is no softmax, is not merged") {
  CHECK(can_share_keys(parsed("mask causal")));
  CHECK(can_share_keys(parsed("param s : f32[heads] mask window(9) normalize softmax(sink = s)")));
  CHECK(can_share_keys(parsed("param seed : i32 weights dropout(0.5, seed)")));
  CHECK(can_share_keys(parsed("storage paged(page_size = 16)")));
  CHECK_FALSE(can_share_keys(parsed("storage ragged, paged(page_size = 16)")));
  CHECK_FALSE(can_share_keys(parsed("output scale(2)")));
  CHECK_FALSE(can_share_keys(parsed("output max_logit")));
  CHECK_FALSE(can_share_keys(parsed("output differential(0.5)")));
  CHECK_FALSE(can_share_keys(parsed("normalize sigmoid")));
}

TEST_CASE("names of shared outputs are nobody else's") {
  const Graph graph = parsed("param o_shares : f32[heads] score x + o_shares[h]");
  for (const SharedOutput& output : shared_outputs(graph))
    CHECK_FALSE(graph.find_tensor(output.shares).valid());
}

}  // namespace attnfuse
