#include "conformance/data.h"

#include <set>

#include <doctest/doctest.h>

namespace attnfuse::conformance {
namespace {

const std::vector<std::int64_t> kShape{2, 3, 5, 8};

}  // namespace

TEST_CASE("no two elements of a tensor share an address, except in the broadcast layout") {
  for (const auto& layout : layouts())
    for (const char* name : {"q", "k", "v", "o"}) {
      const Placement placement = place(layout.kind, name, DType::f16, kShape);
      std::set<std::int64_t> addresses;
      for_each_index(kShape, [&](std::span<const std::int64_t> index) {
        addresses.insert(placement.layout.offset(index));
      });
      const bool shared = layout.kind == Layout::broadcast && (name[0] == 'k' || name[0] == 'v');
      CAPTURE(layout.name);
      CAPTURE(name);
      CHECK(addresses.size() == (shared ? 120 : 240));
      CHECK(placement.layout.strides[3] == 1);
    }
}

TEST_CASE("the last axis of lse is contiguous in every layout") {
  for (const auto& layout : layouts())
    CHECK(place(layout.kind, "lse", DType::f32, {2, 3, 5}).layout.strides[2] == 1);
}

TEST_CASE("padded rows stay aligned to sixteen bytes and odd rows do not") {
  CHECK(place(Layout::padded, "q", DType::f16, kShape).layout.strides[2] * 2 % 16 == 0);
  CHECK(place(Layout::odd, "q", DType::f16, kShape).layout.strides[2] * 2 % 4 != 0);
  CHECK(place(Layout::odd, "q", DType::f16, kShape).offset == 1);
}

TEST_CASE("an index walk visits every element once, and none of an empty shape") {
  int visits = 0;
  for_each_index({2, 3}, [&](std::span<const std::int64_t>) { ++visits; });
  CHECK(visits == 6);
  for_each_index({2, 0}, [&](std::span<const std::int64_t>) { ++visits; });
  CHECK(visits == 6);
  for_each_index({}, [&](std::span<const std::int64_t>) { ++visits; });
  CHECK(visits == 7);
}

}  // namespace attnfuse::conformance
