#include "runtime/hip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/gpu_device.h"
#include "runtime/library.h"

namespace attnfuse::hip {
namespace {

// The part of the HIP runtime that is used. Handles and device addresses are pointers.
struct Api {
  int (*init)(unsigned);
  int (*device_count)(int*);
  int (*set_device)(int);
  int (*get_device)(int*);
  int (*properties)(void*, int);
  int (*synchronize)();
  int (*allocate)(void**, std::size_t);
  int (*release)(void*);
  int (*copy)(void*, const void*, std::size_t, int);
  int (*load_module)(void**, const void*);
  int (*unload_module)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**);
  int (*create_event)(void**);
  int (*destroy_event)(void*);
  int (*record_event)(void*, void*);
  int (*wait_event)(void*);
  int (*elapsed)(float*, void*, void*);
  const char* (*error_name)(int);
  const char* (*error_string)(int);
};

// Values of hip_runtime_api.h.
constexpr int kOutOfMemory = 2, kNoDevice = 100;
constexpr int kHostToDevice = 1, kDeviceToHost = 2;
void* const kParamBuffer = reinterpret_cast<void*>(1);
void* const kParamBufferSize = reinterpret_cast<void*>(2);
void* const kParamEnd = reinterpret_cast<void*>(3);

struct Driver {
  Library library;
  Api api{};
  int init_code = 0;
};

Driver load_driver() {
  Driver driver;
  driver.library = Library::open(
      {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"}, {"/opt/rocm/lib"});
  Library& library = driver.library;
  Api& api = driver.api;
  library.bind("hipInit", api.init);
  library.bind("hipGetDeviceCount", api.device_count);
  library.bind("hipSetDevice", api.set_device);
  library.bind("hipGetDevice", api.get_device);
  library.bind("hipGetDeviceProperties", api.properties);
  library.bind("hipDeviceSynchronize", api.synchronize);
  library.bind("hipMalloc", api.allocate);
  library.bind("hipFree", api.release);
  library.bind("hipMemcpy", api.copy);
  library.bind("hipModuleLoadData", api.load_module);
  library.bind("hipModuleUnload", api.unload_module);
  library.bind("hipModuleGetFunction", api.get_function);
  library.bind("hipModuleLaunchKernel", api.launch);
  library.bind("hipEventCreate", api.create_event);
  library.bind("hipEventDestroy", api.destroy_event);
  library.bind("hipEventRecord", api.record_event);
  library.bind("hipEventSynchronize", api.wait_event);
  library.bind("hipEventElapsedTime", api.elapsed);
  library.bind("hipGetErrorName", api.error_name);
  library.bind("hipGetErrorString", api.error_string);
  if (library && library.missing().empty()) driver.init_code = api.init(0);
  return driver;
}

const Driver& driver() {
  static const Driver instance = load_driver();
  return instance;
}

std::string error_text(const Api& api, int code) {
  return fmt::format("{} ({})", api.error_string(code), api.error_name(code));
}

Status usable() {
  const Driver& d = driver();
  if (!d.library)
    return Diagnostic{"driver.missing",
                      fmt::format("no HIP runtime: {}", d.library.error()),
                      {},
                      "install AMD's driver and ROCm, or choose another target"};
  if (!d.library.missing().empty())
    return Diagnostic{
        "driver.missing",
        fmt::format("the HIP runtime {} is too old: it lacks {}", d.library.name(), d.library.missing()[0]),
        {},
        "install ROCm 5 or later"};
  if (d.init_code == kNoDevice)
    return Diagnostic{"device.none", "the HIP runtime finds no device", {}, "choose another target"};
  if (d.init_code != 0)
    return Diagnostic{
        "driver.failed", "the HIP runtime does not start: " + error_text(d.api, d.init_code), {}, ""};
  return Unit{};
}

void* pointer(std::uint64_t address) { return reinterpret_cast<void*>(address); }

class HipDriver : public GpuDriver {
 public:
  HipDriver(const Api& api, int device, std::string name)
      : api_(api), device_(device), name_(std::move(name)) {}

  std::string device_name() const override { return name_; }
  int make_current(void*& found) override {
    int device = device_;
    const int code = api_.get_device(&device);
    found = reinterpret_cast<void*>(std::intptr_t(device));
    return code != 0 || device == device_ ? code : api_.set_device(device_);
  }
  void restore(void* found) override {
    const int device = int(reinterpret_cast<std::intptr_t>(found));
    if (device != device_) api_.set_device(device);
  }
  int allocate(std::uint64_t& address, std::size_t bytes) override {
    void* memory = nullptr;
    const int code = api_.allocate(&memory, bytes);
    address = reinterpret_cast<std::uint64_t>(memory);
    return code;
  }
  int release(std::uint64_t address) override { return api_.release(pointer(address)); }
  int upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    return api_.copy(pointer(to), from, bytes, kHostToDevice);
  }
  int download(void* to, std::uint64_t from, std::size_t bytes) override {
    return api_.copy(to, pointer(from), bytes, kDeviceToHost);
  }
  int load(void*& module, const void* image) override { return api_.load_module(&module, image); }
  int unload(void* module) override { return api_.unload_module(module); }
  int find_function(void*& function, void* module, const char* entry) override {
    return api_.get_function(&function, module, entry);
  }
  int launch(void* function, const Launch& launch, const void* params, std::size_t param_bytes) override {
    void* extra[] = {kParamBuffer, const_cast<void*>(params), kParamBufferSize, &param_bytes, kParamEnd};
    return api_.launch(function, launch.grid[0], launch.grid[1], launch.grid[2], unsigned(launch.threads), 1,
                       1, 0 /* kernels declare their shared memory */, launch.stream, nullptr, extra);
  }
  int synchronize() override { return api_.synchronize(); }
  int create_event(void*& event) override { return api_.create_event(&event); }
  int destroy_event(void* event) override { return api_.destroy_event(event); }
  int record(void* event) override { return api_.record_event(event, nullptr); }
  int elapsed(float& milliseconds, void* from, void* to) override {
    const int code = api_.wait_event(to);
    return code != 0 ? code : api_.elapsed(&milliseconds, from, to);
  }
  std::string error_text(int code) const override { return hip::error_text(api_, code); }
  bool is_out_of_memory(int code) const override { return code == kOutOfMemory; }

 private:
  const Api& api_;
  int device_;
  std::string name_;
};

// Device name and architecture ("gfx942:sramecc+:xnack-" without its features). The properties structure
// differs between versions: the name always stands first, the architecture is the only field that starts with
// "gfx".
struct Properties {
  std::string name, arch;
};
Properties parse_properties(std::string_view bytes) {
  Properties properties{std::string(bytes.substr(0, bytes.find('\0'))), ""};
  const std::size_t at = bytes.find("gfx", properties.name.size());
  if (at != std::string_view::npos) {
    const std::string_view rest = bytes.substr(at);
    properties.arch = rest.substr(0, rest.find_first_of(std::string_view(":\0", 2)));
  }
  return properties;
}

}  // namespace

int device_count() {
  int count = 0;
  return usable() && driver().api.device_count(&count) == 0 ? count : 0;
}

Result<std::shared_ptr<Device>> open(int ordinal, std::span<const Target> targets) {
  if (auto status = usable(); !status) return status.errors();
  const Api& api = driver().api;
  if (const int count = device_count(); ordinal < 0 || ordinal >= count)
    return Diagnostic{"device.none",
                      count == 0
                          ? "the HIP runtime finds no device"
                          : fmt::format("there is no HIP device {}: the runtime finds {}", ordinal, count),
                      {},
                      "choose another device or target"};
  std::array<char, 16384> bytes{};  // larger than any version's structure
  if (const int code = api.properties(bytes.data(), ordinal); code != 0)
    return Diagnostic{
        "driver.failed", fmt::format("HIP device {}: {}", ordinal, error_text(api, code)), {}, ""};
  const Properties properties = parse_properties({bytes.data(), bytes.size()});
  std::vector<Target> runnable;
  for (const Target& target : targets)
    if (target.arch == properties.arch) runnable.push_back(target);
  if (runnable.empty())
    return Diagnostic{
        "device.unsupported",
        fmt::format("{} has the architecture '{}', which no target is for", properties.name, properties.arch),
        {},
        "list the targets, and choose a device that runs one"};
  return make_gpu_device(std::make_shared<HipDriver>(api, ordinal, properties.name), std::move(runnable));
}

}  // namespace attnfuse::hip
