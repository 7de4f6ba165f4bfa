#include "runtime/cuda.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/gpu_device.h"
#include "runtime/library.h"

namespace attnfuse::cuda {
namespace {

// The part of the driver API that is used. Handles are pointers, device numbers and attributes ints.
struct Api {
  int (*init)(unsigned);
  int (*driver_version)(int*);
  int (*device_count)(int*);
  int (*device_get)(int*, int);
  int (*device_name)(char*, int, int);
  int (*device_attribute)(int*, int, int);
  int (*retain_context)(void**, int);
  int (*release_context)(int);
  int (*set_context)(void*);
  int (*synchronize)();
  int (*allocate)(std::uint64_t*, std::size_t);
  int (*release)(std::uint64_t);
  int (*upload)(std::uint64_t, const void*, std::size_t);
  int (*download)(void*, std::uint64_t, std::size_t);
  int (*load_module)(void**, const void*);
  int (*unload_module)(void*);
  int (*get_function)(void**, void*, const char*);
  int (*function_attribute)(int*, int, void*);
  int (*set_function_attribute)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**);
  int (*create_event)(void**, unsigned);
  int (*destroy_event)(void*);
  int (*record_event)(void*, void*);
  int (*wait_event)(void*);
  int (*elapsed)(float*, void*, void*);
  int (*error_name)(int, const char**);
  int (*error_string)(int, const char**);
};

// Values of cuda.h.
constexpr int kOutOfMemory = 2, kNoDevice = 100;
constexpr int kMaxSharedPerBlockOptIn = 97, kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kFunctionSharedBytes = 1, kFunctionMaxDynamicSharedBytes = 8;
void* const kParamEnd = nullptr;
void* const kParamBuffer = reinterpret_cast<void*>(1);
void* const kParamBufferSize = reinterpret_cast<void*>(2);

struct Driver {
  Library library;
  Api api{};
  int init_code = 0;
};

Driver load_driver() {
  Driver driver;
  driver.library = Library::open({"libcuda.so.1"});
  Library& library = driver.library;
  Api& api = driver.api;
  library.bind("cuInit", api.init);
  library.bind("cuDriverGetVersion", api.driver_version);
  library.bind("cuDeviceGetCount", api.device_count);
  library.bind("cuDeviceGet", api.device_get);
  library.bind("cuDeviceGetName", api.device_name);
  library.bind("cuDeviceGetAttribute", api.device_attribute);
  library.bind("cuDevicePrimaryCtxRetain", api.retain_context);
  library.bind("cuDevicePrimaryCtxRelease_v2", api.release_context);
  library.bind("cuCtxSetCurrent", api.set_context);
  library.bind("cuCtxSynchronize", api.synchronize);
  library.bind("cuMemAlloc_v2", api.allocate);
  library.bind("cuMemFree_v2", api.release);
  library.bind("cuMemcpyHtoD_v2", api.upload);
  library.bind("cuMemcpyDtoH_v2", api.download);
  library.bind("cuModuleLoadData", api.load_module);
  library.bind("cuModuleUnload", api.unload_module);
  library.bind("cuModuleGetFunction", api.get_function);
  library.bind("cuFuncGetAttribute", api.function_attribute);
  library.bind("cuFuncSetAttribute", api.set_function_attribute);
  library.bind("cuLaunchKernel", api.launch);
  library.bind("cuEventCreate", api.create_event);
  library.bind("cuEventDestroy_v2", api.destroy_event);
  library.bind("cuEventRecord", api.record_event);
  library.bind("cuEventSynchronize", api.wait_event);
  library.bind("cuEventElapsedTime", api.elapsed);
  library.bind("cuGetErrorName", api.error_name);
  library.bind("cuGetErrorString", api.error_string);
  if (library && library.missing().empty()) driver.init_code = api.init(0);
  return driver;
}

const Driver& driver() {
  static const Driver instance = load_driver();
  return instance;
}

std::string error_text(const Api& api, int code) {
  const char *name = nullptr, *text = nullptr;
  api.error_name(code, &name);
  api.error_string(code, &text);
  return fmt::format("{} ({})", text ? text : "unknown error", name ? name : std::to_string(code));
}

Status usable() {
  const Driver& d = driver();
  if (!d.library)
    return Diagnostic{"driver.missing",
                      fmt::format("no CUDA driver: {}", d.library.error()),
                      {},
                      "install NVIDIA's driver, or choose another target"};
  if (!d.library.missing().empty())
    return Diagnostic{
        "driver.missing",
        fmt::format("the CUDA driver {} is too old: it lacks {}", d.library.name(), d.library.missing()[0]),
        {},
        "install a driver for CUDA 11 or later"};
  if (d.init_code == kNoDevice)
    return Diagnostic{"device.none", "the CUDA driver finds no device", {}, "choose another target"};
  if (d.init_code != 0)
    return Diagnostic{
        "driver.failed", "the CUDA driver does not start: " + error_text(d.api, d.init_code), {}, ""};
  return Unit{};
}

class CudaDriver : public GpuDriver {
 public:
  CudaDriver(const Api& api, int device, void* context, std::string name, int max_shared)
      : api_(api), device_(device), context_(context), name_(std::move(name)), max_shared_(max_shared) {}
  ~CudaDriver() override { api_.release_context(device_); }

  std::string device_name() const override { return name_; }
  int make_current() override { return api_.set_context(context_); }
  int allocate(std::uint64_t& address, std::size_t bytes) override { return api_.allocate(&address, bytes); }
  int release(std::uint64_t address) override { return api_.release(address); }
  int upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    return api_.upload(to, from, bytes);
  }
  int download(void* to, std::uint64_t from, std::size_t bytes) override {
    return api_.download(to, from, bytes);
  }
  int load(void*& module, const void* image) override { return api_.load_module(&module, image); }
  int unload(void* module) override { return api_.unload_module(module); }
  int find_function(void*& function, void* module, const char* entry) override {
    int code = api_.get_function(&function, module, entry);
    int shared = 0;
    if (code == 0) code = api_.function_attribute(&shared, kFunctionSharedBytes, function);
    if (code == 0)
      code = api_.set_function_attribute(function, kFunctionMaxDynamicSharedBytes, max_shared_ - shared);
    return code;
  }
  int launch(void* function, const Launch& launch, void* params, std::size_t param_bytes) override {
    void* extra[] = {kParamBuffer, params, kParamBufferSize, &param_bytes, kParamEnd};
    return api_.launch(function, launch.grid[0], launch.grid[1], launch.grid[2], unsigned(launch.threads), 1,
                       1, unsigned(launch.shared_bytes), nullptr, nullptr, extra);
  }
  int synchronize() override { return api_.synchronize(); }
  int create_event(void*& event) override { return api_.create_event(&event, 0); }
  int destroy_event(void* event) override { return api_.destroy_event(event); }
  int record(void* event) override { return api_.record_event(event, nullptr); }
  int elapsed(float& milliseconds, void* from, void* to) override {
    const int code = api_.wait_event(to);
    return code != 0 ? code : api_.elapsed(&milliseconds, from, to);
  }
  std::string error_text(int code) const override { return cuda::error_text(api_, code); }
  bool is_out_of_memory(int code) const override { return code == kOutOfMemory; }

 private:
  const Api& api_;
  int device_;
  void* context_;
  std::string name_;
  int max_shared_;
};

}  // namespace

bool runs(int major, int minor, const std::string& arch) {
  int number = 0;
  std::size_t at = arch.find('_') + 1;
  for (; at < arch.size() && arch[at] >= '0' && arch[at] <= '9'; ++at)
    number = number * 10 + (arch[at] - '0');
  const bool exact = at < arch.size();
  return number / 10 == major && (exact ? number % 10 == minor : number % 10 <= minor);
}

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
                          ? "the CUDA driver finds no device"
                          : fmt::format("there is no CUDA device {}: the driver finds {}", ordinal, count),
                      {},
                      "choose another device or target"};
  int device = 0, major = 0, minor = 0, shared = 0;
  char name[256] = {};
  void* context = nullptr;
  int code = api.device_get(&device, ordinal);
  if (code == 0) code = api.device_name(name, int(sizeof name) - 1, device);
  if (code == 0) code = api.device_attribute(&major, kCapabilityMajor, device);
  if (code == 0) code = api.device_attribute(&minor, kCapabilityMinor, device);
  if (code == 0) code = api.device_attribute(&shared, kMaxSharedPerBlockOptIn, device);
  if (code != 0)
    return Diagnostic{
        "driver.failed", fmt::format("CUDA device {}: {}", ordinal, error_text(api, code)), {}, ""};
  std::vector<Target> runnable;
  for (const Target& target : targets)
    if (runs(major, minor, target.arch)) runnable.push_back(target);
  if (runnable.empty())
    return Diagnostic{
        "device.unsupported",
        fmt::format("{} has compute capability {}.{}, which no target is for", name, major, minor),
        {},
        "list the targets, and choose a device that runs one"};
  std::reverse(runnable.begin(), runnable.end());  // listed oldest first
  if (code = api.retain_context(&context, device); code != 0)
    return Diagnostic{
        "driver.failed", fmt::format("{} cannot be used: {}", name, error_text(api, code)), {}, ""};
  return make_gpu_device(std::make_shared<CudaDriver>(api, device, context, name, shared),
                         std::move(runnable));
}

}  // namespace attnfuse::cuda
