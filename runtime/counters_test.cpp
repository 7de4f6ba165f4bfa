#include "runtime/counters.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>

#include "runtime/test_device.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

class StreamDriver : public FakeDriver {
 public:
  bool capturing = false;
  int allocations = 0;
  int allocate(std::uint64_t& address, std::size_t bytes) override {
    ++allocations;
    return FakeDriver::allocate(address, bytes);
  }
  int state(StreamState& state, void* stream) override {
    state = {reinterpret_cast<std::uintptr_t>(stream), capturing};
    return fail == "state" ? failure_code : 0;
  }
};

void* stream(std::size_t number) { return reinterpret_cast<void*>(number); }

}  // namespace

TEST_CASE("launches of one stream share a pair of counters, those of two streams do not") {
  const auto driver = std::make_shared<StreamDriver>();
  auto counters = Counters::create(make_gpu_device(driver, {Target{}})).value();
  const auto first = counters.address_for(nullptr).value();
  CHECK(counters.address_for(stream(1)).value() != first);
  CHECK(counters.address_for(nullptr).value() == first);
  std::uint64_t pair = 1;
  std::memcpy(&pair, reinterpret_cast<const void*>(first), sizeof pair);
  CHECK(pair == 0);
}

TEST_CASE("every recorded launch has a pair of its own, for good") {
  const auto driver = std::make_shared<StreamDriver>();
  auto counters = Counters::create(make_gpu_device(driver, {Target{}})).value();
  std::set<std::uint64_t> seen{counters.address_for(stream(1)).value()};
  driver->capturing = true;
  for (int n = 0; n < 100; ++n) CHECK(seen.insert(counters.address_for(stream(1)).value()).second);
  driver->capturing = false;
  CHECK(!seen.insert(counters.address_for(stream(1)).value()).second);
  CHECK(seen.insert(counters.address_for(stream(2)).value()).second);
}

TEST_CASE("counters are allocated outside of recordings only, ahead of need") {
  const auto driver = std::make_shared<StreamDriver>();
  auto counters = Counters::create(make_gpu_device(driver, {Target{}})).value();
  driver->capturing = true;
  for (std::size_t n = 0; n < Counters::kBlock; ++n) REQUIRE(counters.address_for(nullptr).ok());
  const auto none = counters.address_for(nullptr);
  REQUIRE(!none.ok());
  CHECK(render(none.errors()) ==
        "error[launch.counters]: all 4096 work counters belong to launches recorded before\n"
        "  fix: launch once outside of a recording, which makes room for more");
  CHECK(driver->allocations == 1);
  driver->capturing = false;
  REQUIRE(counters.address_for(nullptr).ok());
  CHECK(driver->allocations == 2);
  driver->capturing = true;
  CHECK(counters.address_for(nullptr).ok());
  driver->fail = "state";
  CHECK(counters.address_for(nullptr).errors()[0].code == "device.failed");
}
