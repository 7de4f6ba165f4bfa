#include "runtime/gpu_device.h"

#include <doctest/doctest.h>

#include <cstring>
#include <map>

using namespace attnfuse;

namespace {

// A driver whose device memory is host memory. `fail` makes the call of that name return code 7, or 2 = no
// memory.
class FakeDriver : public GpuDriver {
 public:
  std::string fail;
  int failure_code = 7;
  int live = 0;  // buffers, modules and events not given back
  std::vector<std::byte> launched;
  Launch shape;

  std::string device_name() const override { return "Fake GPU"; }
  int make_current() override { return code("make_current"); }
  int allocate(std::uint64_t& address, std::size_t bytes) override {
    CHECK(bytes > 0);
    if (code("allocate") != 0) return failure_code;
    ++live;
    address = reinterpret_cast<std::uint64_t>(std::malloc(bytes));
    return 0;
  }
  int release(std::uint64_t address) override {
    --live;
    std::free(reinterpret_cast<void*>(address));
    return 0;
  }
  int upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return code("upload");
  }
  int download(void* to, std::uint64_t from, std::size_t bytes) override {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return code("download");
  }
  int load(void*& module, const void*) override {
    if (code("load") != 0) return failure_code;
    ++live;
    module = this;
    return 0;
  }
  int unload(void*) override { return --live, 0; }
  int find_function(void*& function, void*, const char* entry) override {
    function = this;
    return std::strcmp(entry, "kernel") == 0 ? 0 : 7;
  }
  int launch(void*, const Launch& launch, void* params, std::size_t bytes) override {
    shape = launch;
    launched.assign(static_cast<std::byte*>(params), static_cast<std::byte*>(params) + bytes);
    return code("launch");
  }
  int synchronize() override { return code("synchronize"); }
  int create_event(void*& event) override {
    ++live;
    event = this;
    return 0;
  }
  int destroy_event(void*) override { return --live, 0; }
  int record(void*) override { return code("record"); }
  int elapsed(float& milliseconds, void*, void*) override { return milliseconds = 1.5F, code("elapsed"); }
  std::string error_text(int code) const override { return "code " + std::to_string(code); }
  bool is_out_of_memory(int code) const override { return code == 2; }

 private:
  int code(const char* call) const { return fail == call ? failure_code : 0; }
};

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
