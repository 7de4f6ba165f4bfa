// A GPU for tests of this folder: host memory, launches that are recorded or done by a function, failures on
// request.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/gpu_device.h"

namespace attnfuse::testing {

// A driver whose device memory is host memory. `fail` makes the call of that name return code 7, or 2 = no
// memory.
class FakeDriver : public GpuDriver {
 public:
  std::string fail;
  int failure_code = 7;
  int live = 0;     // buffers, modules and events not given back
  int entered = 0;  // make_current without restore
  std::vector<std::byte> launched;
  Launch shape;
  std::function<void(const std::vector<std::byte>&)> kernel;  // executed by a launch

  std::string device_name() const override { return "Fake GPU"; }
  int make_current(void*&) override {
    if (code("make_current") != 0) return failure_code;
    ++entered;
    return 0;
  }
  void restore(void*) override { --entered; }
  int allocate(std::uint64_t& address, std::size_t bytes) override {
    if (bytes == 0 || code("allocate") != 0) return failure_code;
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
  int launch(void*, const Launch& launch, const void* params, std::size_t bytes) override {
    shape = launch;
    const auto* first = static_cast<const std::byte*>(params);
    launched.assign(first, first + bytes);
    if (kernel) kernel(launched);
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

}  // namespace attnfuse::testing
