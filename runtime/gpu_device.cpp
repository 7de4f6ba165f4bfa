#include "runtime/gpu_device.h"

#include <fmt/format.h>

namespace attnfuse {
namespace {

Diagnostic failure(const GpuDriver& driver, int code, const std::string& what) {
  return {"device.failed",
          fmt::format("{}: {} failed: {}", driver.device_name(), what, driver.error_text(code)),
          {},
          ""};
}

// The driver's device is the thread's current one while this lives.
class Current {
 public:
  explicit Current(GpuDriver& driver) : driver_(driver) { code_ = driver.make_current(found_); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    if (code_ == 0) driver_.restore(found_);
  }
  int code() const { return code_; }

 private:
  GpuDriver& driver_;
  void* found_ = nullptr;
  int code_ = 0;
};

class GpuBuffer : public Buffer {
 public:
  GpuBuffer(std::shared_ptr<GpuDriver> driver, std::uint64_t address, std::size_t size)
      : driver_(std::move(driver)), address_(address), size_(size) {}
  ~GpuBuffer() override {
    const Current current(*driver_);
    driver_->release(address_);
  }
  std::uint64_t address() const override { return address_; }
  std::size_t size() const override { return size_; }

 private:
  std::shared_ptr<GpuDriver> driver_;
  std::uint64_t address_;
  std::size_t size_;
};

class GpuModule : public Module {
 public:
  GpuModule(std::shared_ptr<GpuDriver> driver, void* module) : driver_(std::move(driver)), module_(module) {}
  ~GpuModule() override {
    const Current current(*driver_);
    driver_->unload(module_);
  }
  int find(const std::string& entry) { return driver_->find_function(function_, module_, entry.c_str()); }
  void* function() const { return function_; }

 private:
  std::shared_ptr<GpuDriver> driver_;
  void* module_;
  void* function_ = nullptr;
};

class Event {
 public:
  explicit Event(GpuDriver& driver) : driver_(driver) { code_ = driver.create_event(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (code_ == 0) driver_.destroy_event(event_);
  }
  int record() { return code_ != 0 ? code_ : driver_.record(event_); }
  void* handle() const { return event_; }

 private:
  GpuDriver& driver_;
  void* event_ = nullptr;
  int code_ = 0;
};

class GpuDevice : public Device {
 public:
  GpuDevice(std::shared_ptr<GpuDriver> driver, std::vector<Target> targets)
      : driver_(std::move(driver)), targets_(std::move(targets)) {
    ATTNFUSE_CHECK(!targets_.empty(), "a device without target");
  }
  std::string name() const override { return driver_->device_name(); }
  Target target() const override { return targets_.front(); }
  std::vector<Target> targets() const override { return targets_; }

  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    std::uint64_t address = 0;
    const Current current(*driver_);
    int code = current.code();
    if (code == 0) code = driver_->allocate(address, std::max<std::size_t>(bytes, 1));  // drivers refuse 0
    if (driver_->is_out_of_memory(code))
      return Diagnostic{"device.out-of-memory",
                        fmt::format("{} has no room for {} bytes more", name(), bytes),
                        {},
                        "use a smaller batch or shorter sequences, or free device memory"};
    if (code != 0) return failure(*driver_, code, fmt::format("allocating {} bytes", bytes));
    return std::shared_ptr<Buffer>(std::make_shared<GpuBuffer>(driver_, address, bytes));
  }

  Status upload(Buffer& to, std::size_t offset, std::span<const std::byte> from) override {
    ATTNFUSE_CHECK(offset <= to.size() && from.size() <= to.size() - offset,
                   "an upload past the end of its buffer");
    if (from.empty()) return Unit{};
    return status("an upload",
                  [&] { return driver_->upload(to.address() + offset, from.data(), from.size()); });
  }

  Status download(const Buffer& from, std::size_t offset, std::span<std::byte> to) override {
    ATTNFUSE_CHECK(offset <= from.size() && to.size() <= from.size() - offset,
                   "a download past the end of its buffer");
    if (to.empty()) return Unit{};
    return status("a download",
                  [&] { return driver_->download(to.data(), from.address() + offset, to.size()); });
  }

  Result<std::shared_ptr<Module>> load(const Binary& binary) override {
    void* handle = nullptr;
    const Current current(*driver_);
    int code = current.code();
    if (code == 0) code = driver_->load(handle, binary.bytes.data());
    if (code != 0)
      return failure(*driver_, code, fmt::format("loading a {} for {}", binary.format, binary.target));
    auto module = std::make_shared<GpuModule>(driver_, handle);
    code = module->find(binary.entry);
    if (code != 0) return failure(*driver_, code, fmt::format("finding the kernel '{}'", binary.entry));
    return std::shared_ptr<Module>(std::move(module));
  }

  Status launch(const Module& module, const Launch& launch, std::span<const std::byte> params) override {
    const auto* loaded = dynamic_cast<const GpuModule*>(&module);
    ATTNFUSE_CHECK(loaded, "a module of another device");
    const Current current(*driver_);
    int code = current.code();
    if (code == 0) code = driver_->launch(loaded->function(), launch, params.data(), params.size());
    if (code == 0) return Unit{};  // a launch costs microseconds: the text below is made only when needed
    return failure(
        *driver_, code,
        fmt::format("launching {} x {} x {} workgroups of {} threads with {} bytes of shared memory",
                    launch.grid[0], launch.grid[1], launch.grid[2], launch.threads, launch.shared_bytes));
  }

  Result<StreamState> state(void* stream) override {
    StreamState state;
    auto found = status("asking for the state of a stream", [&] { return driver_->state(state, stream); });
    if (!found) return found.errors();
    return state;
  }

  Result<EncodedTensorMap> encode(const TensorMap& map) override {
    EncodedTensorMap encoded{};
    bool supported = false;
    const Current current(*driver_);
    int code = current.code();
    if (code == 0) {
      code = driver_->encode(encoded, map, supported);
      if (!supported) return Device::encode(map);
    }
    if (code == 0) return encoded;
    return failure(
        *driver_, code,
        fmt::format("describing a tensor of {} x {} x {} x {} elements at {:#x} with strides of {}, {} "
                    "and {} bytes to the copy engine",
                    map.extents[3], map.extents[2], map.extents[1], map.extents[0], map.address,
                    map.strides_bytes[2], map.strides_bytes[1], map.strides_bytes[0]));
  }

  Status synchronize() override {
    return status("a kernel", [&] { return driver_->synchronize(); });
  }

  Result<double> time(const std::function<Status()>& work) override {
    const Current current(*driver_);
    if (current.code() != 0) return failure(*driver_, current.code(), "timing");
    Event start(*driver_), stop(*driver_);
    if (int code = start.record(); code != 0) return failure(*driver_, code, "timing");
    if (auto done = work(); !done) return done.errors();
    float milliseconds = 0;
    int code = stop.record();
    if (code == 0) code = driver_->elapsed(milliseconds, start.handle(), stop.handle());
    if (code != 0) return failure(*driver_, code, "a timed kernel");
    return double(milliseconds);
  }

 private:
  template <class Call>
  Status status(const char* what, Call&& call) {
    const Current current(*driver_);
    int code = current.code();
    if (code == 0) code = call();
    if (code != 0) return failure(*driver_, code, what);
    return Unit{};
  }

  std::shared_ptr<GpuDriver> driver_;
  std::vector<Target> targets_;
};

}  // namespace

Result<StreamState> Device::state(void* stream) {
  return StreamState{reinterpret_cast<std::uintptr_t>(stream), false};
}

int GpuDriver::state(StreamState& state, void* stream) {
  state = {reinterpret_cast<std::uintptr_t>(stream), false};
  return 0;
}

int GpuDriver::encode(EncodedTensorMap&, const TensorMap&, bool& supported) {
  supported = false;
  return 0;
}

Result<EncodedTensorMap> Device::encode(const TensorMap&) {
  return Diagnostic{
      "device.failed", name() + " has no copy engine for tensors", {}, "use the portable schedule"};
}

std::shared_ptr<Device> make_gpu_device(std::shared_ptr<GpuDriver> driver, std::vector<Target> targets) {
  return std::make_shared<GpuDevice>(std::move(driver), std::move(targets));
}

}  // namespace attnfuse
