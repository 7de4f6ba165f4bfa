#include "runtime/gpu_device.h"

#include <doctest/doctest.h>

#include "runtime/test_device.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

struct Fixture {
  std::shared_ptr<FakeDriver> driver = std::make_shared<FakeDriver>();
  std::shared_ptr<Device> device = make_gpu_device(driver, {Target{}});
  Binary binary = {"fake:one", "cubin", "kernel", std::vector<std::byte>(4), {}, ""};
};

}  // namespace

TEST_CASE("what is uploaded to a device buffer comes back, at any offset, and everything is given back") {
  Fixture f;
  {
    const auto buffer = f.device->allocate(16).value();
    const std::byte in[] = {std::byte{1}, std::byte{2}, std::byte{3}};
    REQUIRE(f.device->upload(*buffer, 5, in).ok());
    std::byte out[2];
    REQUIRE(f.device->download(*buffer, 6, out).ok());
    CHECK(out[0] == std::byte{2});
    CHECK(out[1] == std::byte{3});
    CHECK(f.device->allocate(0).value()->size() == 0);
    const auto module = f.device->load(f.binary).value();
    CHECK(f.driver->live == 2);
  }
  CHECK(f.driver->live == 0);
}

TEST_CASE("a launch passes the parameter block as it is") {
  Fixture f;
  const auto module = f.device->load(f.binary).value();
  const std::vector<std::byte> params(24, std::byte{9});
  REQUIRE(f.device->launch(*module, {{3, 2, 1}, 128, 1024}, params).ok());
  CHECK(f.driver->launched == params);
  CHECK(f.driver->shape.grid[0] == 3);
  CHECK(f.driver->shape.threads == 128);
  CHECK(f.device->time([&] { return f.device->launch(*module, {}, params); }).value() == 1.5);
}

TEST_CASE("a launch goes to the caller's stream, and every call gives the thread its device back") {
  Fixture f;
  const auto module = f.device->load(f.binary).value();
  Launch launch;
  launch.stream = &f;
  launch.overlaps_previous = true;
  REQUIRE(f.device->launch(*module, launch, {}).ok());
  CHECK(f.driver->shape.stream == &f);
  CHECK(f.driver->shape.overlaps_previous);
  const StreamState state = f.device->state(&f).value();
  CHECK(state.id == reinterpret_cast<std::uintptr_t>(&f));
  CHECK(!state.capturing);
  f.driver->fail = "launch";
  CHECK(!f.device->launch(*module, launch, {}).ok());
  CHECK(f.driver->entered == 0);
}

TEST_CASE("running out of device memory names the size and what to do") {
  Fixture f;
  f.driver->fail = "allocate";
  f.driver->failure_code = 2;
  CHECK(render(f.device->allocate(1000).errors()) ==
        "error[device.out-of-memory]: Fake GPU has no room for 1000 bytes more\n"
        "  fix: use a smaller batch or shorter sequences, or free device memory");
}

TEST_CASE("every driver error becomes a diagnostic in the driver's words, and nothing leaks") {
  for (const char* call : {"make_current", "allocate", "upload", "download", "load", "launch", "synchronize",
                           "record", "elapsed"}) {
    Fixture f;
    {
      const auto buffer = f.device->allocate(4).value();
      const auto module = f.device->load(f.binary).value();
      std::byte bytes[4] = {};
      f.driver->fail = call;
      std::string seen;
      const auto note = [&](const auto& result) {
        if (!result.ok()) seen += render(result.errors()) + "\n";
      };
      note(f.device->allocate(4));
      note(f.device->upload(*buffer, 0, bytes));
      note(f.device->download(*buffer, 0, bytes));
      note(f.device->load(f.binary));
      note(f.device->launch(*module, {}, bytes));
      note(f.device->synchronize());
      note(f.device->time([] { return Unit{}; }));
      CHECK_MESSAGE(seen.find("error[device.failed]: Fake GPU: ") != std::string::npos, call);
      CHECK_MESSAGE(seen.find("code 7") != std::string::npos, call);
    }
    CHECK_MESSAGE(f.driver->live == 0, call);
  }
}

TEST_CASE("a binary without the kernel it names is a diagnostic") {
  Fixture f;
  f.binary.entry = "other";
  const auto module = f.device->load(f.binary);
  REQUIRE(!module.ok());
  CHECK(module.errors()[0].message.find("'other'") != std::string::npos);
  CHECK(f.driver->live == 0);
}

TEST_CASE("an access past the end of a buffer is our own mistake") {
  Fixture f;
  const auto buffer = f.device->allocate(4).value();
  std::byte bytes[4] = {};
  CHECK_THROWS_AS((void)f.device->upload(*buffer, 1, bytes), InternalError);
  CHECK_THROWS_AS((void)f.device->download(*buffer, SIZE_MAX, bytes), InternalError);
}
