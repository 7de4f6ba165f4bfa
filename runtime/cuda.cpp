#include "runtime/cuda.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/gpu_device.h"
#include "runtime/library.h"

namespace attnfuse::cuda {
namespace {

// CUlaunchConfig and CUlaunchAttribute of cuda.h.
struct LaunchAttribute {
  int id;
  char pad[4];
  int value;
  char rest[60];
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

// The part of the driver API that is used. Handles are pointers, device numbers, attributes and enumerators
// ints.
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
  int (*get_context)(void**);
  int (*context_device)(int*);
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
  int (*is_capturing)(void*, int*);
  int (*create_event)(void**, unsigned);
  int (*destroy_event)(void*);
  int (*record_event)(void*, void*);
  int (*wait_event)(void*);
  int (*elapsed)(float*, void*, void*);
  int (*error_name)(int, const char**);
  int (*error_string)(int, const char**);
  // Null in drivers older than the hardware that needs them.
  int (*launch_ex)(const LaunchConfig*, void*, void**, void**);
  int (*encode_tiled)(void*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*,
                      const std::uint32_t*, const std::uint32_t*, int, int, int, int);
};

// Values of cuda.h.
constexpr int kOutOfMemory = 2, kNoDevice = 100;
constexpr int kMultiprocessors = 16, kMaxSharedPerBlockOptIn = 97, kCapabilityMajor = 75,
              kCapabilityMinor = 76;
constexpr int kFunctionSharedBytes = 1, kFunctionMaxDynamicSharedBytes = 8;
constexpr int kProgrammaticStreamSerialization = 6;
constexpr int kTensorMapFloat16 = 6, kTensorMapBfloat16 = 9;
constexpr int kNoInterleave = 0, kSwizzle128Bytes = 3, kPromote256Bytes = 3, kFillZero = 0;
void* const kPerThreadStream = reinterpret_cast<void*>(2);

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
  library.bind("cuCtxGetCurrent", api.get_context);
  library.bind("cuCtxGetDevice", api.context_device);
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
  library.bind("cuStreamIsCapturing", api.is_capturing);
  library.bind("cuEventCreate", api.create_event);
  library.bind("cuEventDestroy_v2", api.destroy_event);
  library.bind("cuEventRecord", api.record_event);
  library.bind("cuEventSynchronize", api.wait_event);
  library.bind("cuEventElapsedTime", api.elapsed);
  library.bind("cuGetErrorName", api.error_name);
  library.bind("cuGetErrorString", api.error_string);
  library.bind_optional("cuLaunchKernelEx", api.launch_ex);
  library.bind_optional("cuTensorMapEncodeTiled", api.encode_tiled);
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

// What a GPU says about itself.
struct Properties {
  int device = 0, major = 0, minor = 0, max_shared = 0, multiprocessors = 0;
  std::string name;
};

enum class Owner : std::uint8_t { caller, us };  // of the context

class CudaDriver : public GpuDriver {
 public:
  CudaDriver(const Api& api, Properties properties, void* context, Owner owner)
      : api_(api), properties_(std::move(properties)), context_(context), owner_(owner) {}
  ~CudaDriver() override {
    if (owner_ == Owner::us) api_.release_context(properties_.device);
  }

  std::string device_name() const override { return properties_.name; }
  int make_current(void*& found) override {
    const int code = api_.get_context(&found);
    return code != 0 || found == context_ ? code : api_.set_context(context_);
  }
  void restore(void* found) override {
    if (found != context_) api_.set_context(found);
  }
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
      code = api_.set_function_attribute(function, kFunctionMaxDynamicSharedBytes,
                                         properties_.max_shared - shared);
    return code;
  }
  int launch(void* function, const Launch& launch, const void* params, std::size_t) override {
    // One parameter, the block. Not as a buffer of parameters: the driver would not move it to the 64 bytes
    // that tensor maps are aligned to.
    void* blocks[] = {const_cast<void*>(params)};
    if (!launch.overlaps_previous || !api_.launch_ex)
      return api_.launch(function, launch.grid[0], launch.grid[1], launch.grid[2], unsigned(launch.threads),
                         1, 1, unsigned(launch.shared_bytes), launch.stream, blocks, nullptr);
    LaunchAttribute overlap{kProgrammaticStreamSerialization, {}, 1, {}};
    const LaunchConfig config{{launch.grid[0], launch.grid[1], launch.grid[2]},
                              {unsigned(launch.threads), 1, 1},
                              unsigned(launch.shared_bytes),
                              launch.stream,
                              &overlap,
                              1};
    return api_.launch_ex(&config, function, blocks, nullptr);
  }
  int state(StreamState& state, void* stream) override {
    // The per-thread stream is another one on every thread.
    static thread_local char thread;
    state.id = reinterpret_cast<std::uintptr_t>(stream == kPerThreadStream ? &thread : stream);
    int capturing = 0;
    const int code = api_.is_capturing(stream, &capturing);
    state.capturing = capturing != 0;
    return code;
  }
  int encode(EncodedTensorMap& encoded, const TensorMap& map, bool& supported) override {
    supported = api_.encode_tiled && (map.type == DType::f16 || map.type == DType::bf16);
    if (!supported) return 0;
    std::uint64_t extents[4], strides[3];
    std::ranges::copy(map.extents, extents);
    std::ranges::copy(map.strides_bytes, strides);
    const std::uint32_t box[] = {std::uint32_t(map.box_columns), std::uint32_t(map.box_rows), 1, 1};
    const std::uint32_t steps[] = {1, 1, 1, 1};
    struct alignas(64) Aligned {
      EncodedTensorMap bytes;
    } result{};
    const int code =
        api_.encode_tiled(&result, map.type == DType::f16 ? kTensorMapFloat16 : kTensorMapBfloat16, 4,
                          reinterpret_cast<void*>(map.address), extents, strides, box, steps, kNoInterleave,
                          kSwizzle128Bytes, kPromote256Bytes, kFillZero);
    encoded = result.bytes;
    return code;
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
  Properties properties_;
  void* context_;
  Owner owner_;
};

Diagnostic failed(const std::string& what, int code) {
  return {"driver.failed", fmt::format("{}: {}", what, error_text(driver().api, code)), {}, ""};
}

Result<Properties> properties_of(int device) {
  const Api& api = driver().api;
  Properties found;
  found.device = device;
  char name[256] = {};
  int code = api.device_name(name, int(sizeof name) - 1, device);
  const auto ask = [&](int& value, int attribute) {
    if (code == 0) code = api.device_attribute(&value, attribute, device);
  };
  ask(found.major, kCapabilityMajor);
  ask(found.minor, kCapabilityMinor);
  ask(found.max_shared, kMaxSharedPerBlockOptIn);
  ask(found.multiprocessors, kMultiprocessors);
  if (code != 0) return failed(fmt::format("CUDA device {}", device), code);
  found.name = name;
  return found;
}

// What this GPU runs of `targets`, best first.
Result<std::vector<Target>> runnable_targets(const Properties& gpu, std::span<const Target> targets) {
  std::vector<Target> runnable;
  for (const Target& target : targets) {
    if (!runs(gpu.major, gpu.minor, target.arch)) continue;
    runnable.push_back(target);
    runnable.back().compute_units = gpu.multiprocessors;
  }
  std::ranges::reverse(runnable);  // listed oldest first
  if (!runnable.empty()) return runnable;
  return Diagnostic{
      "device.unsupported",
      fmt::format("{} has compute capability {}.{}, which no target is for", gpu.name, gpu.major, gpu.minor),
      {},
      "list the targets, and choose a device that runs one"};
}

// `context` null: the device's own one.
Result<std::shared_ptr<Device>> open_device(int device, void* context, std::span<const Target> targets) {
  const Api& api = driver().api;
  auto gpu = properties_of(device);
  if (!gpu) return gpu.errors();
  auto runnable = runnable_targets(*gpu, targets);
  if (!runnable) return runnable.errors();
  const Owner owner = context ? Owner::caller : Owner::us;
  if (owner == Owner::us)
    if (const int code = api.retain_context(&context, device); code != 0)
      return failed(gpu->name + " cannot be used", code);
  return make_gpu_device(std::make_shared<CudaDriver>(api, std::move(gpu).value(), context, owner),
                         std::move(runnable).value());
}

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
  int device = 0;
  if (const int code = api.device_get(&device, ordinal); code != 0)
    return failed(fmt::format("CUDA device {}", ordinal), code);
  return open_device(device, nullptr, targets);
}

Result<std::shared_ptr<Device>> open_current(std::span<const Target> targets) {
  if (auto status = usable(); !status) return status.errors();
  const Api& api = driver().api;
  void* context = nullptr;
  if (const int code = api.get_context(&context); code != 0) return failed("the current CUDA context", code);
  if (!context) return open(0, targets);
  int device = 0;
  if (const int code = api.context_device(&device); code != 0)
    return failed("the current CUDA context", code);
  return open_device(device, context, targets);
}

}  // namespace attnfuse::cuda
