#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/hip/emulator/emulator.h"
#include "backends/hip/emulator/fault.h"

namespace attnfuse::hip {
namespace {

Diagnostic failure(const char* code, std::string message, std::string fix = "") {
  return {code, std::move(message), {}, std::move(fix)};
}

class EmulatedBuffer : public Buffer {
 public:
  explicit EmulatedBuffer(std::size_t bytes) : memory(bytes) {}
  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(memory.data()); }
  std::size_t size() const override { return memory.size(); }

  GuardedMemory memory;
};

// A shared object from memory; closed with the module.
class EmulatedModule : public Module {
 public:
  EmulatedModule() = default;
  EmulatedModule(const EmulatedModule&) = delete;
  EmulatedModule& operator=(const EmulatedModule&) = delete;
  ~EmulatedModule() override {
    if (handle != nullptr) dlclose(handle);
    if (file >= 0) close(file);
  }
  template <class T>
  T* symbol(const char* name) const {
    return reinterpret_cast<T*>(dlsym(handle, name));
  }

  int file = -1;
  void* handle = nullptr;
  HostKernel kernel;
  Machine machine;
};

class Emulator : public Device {
 public:
  Emulator(std::vector<Target> targets, EmulatorOptions options)
      : targets_(std::move(targets)), options_(options) {}

  std::string name() const override { return "HIP emulator"; }
  Target target() const override { return targets_.front(); }
  std::vector<Target> targets() const override { return targets_; }

  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override {
    auto buffer = std::make_shared<EmulatedBuffer>(bytes);
    if (buffer->memory.data() == nullptr)
      return failure("device.out-of-memory", fmt::format("{}: no memory for {} bytes", name(), bytes),
                     "use smaller tensors");
    return std::shared_ptr<Buffer>(std::move(buffer));
  }

  Status upload(Buffer& to, std::size_t offset, std::span<const std::byte> from) override {
    if (Status inside = check_range(to, offset, from.size()); !inside) return inside;
    if (!from.empty())
      std::memcpy(static_cast<EmulatedBuffer&>(to).memory.data() + offset, from.data(), from.size());
    return Unit{};
  }

  Status download(const Buffer& from, std::size_t offset, std::span<std::byte> to) override {
    const auto& memory = static_cast<const EmulatedBuffer&>(from).memory;
    if (Status inside = check_range(from, offset, to.size()); !inside) return inside;
    if (!memory.is_intact())
      return failure("emulator.overrun",
                     fmt::format("a kernel wrote just outside a buffer of {} bytes", memory.size()));
    if (!to.empty()) std::memcpy(to.data(), memory.data() + offset, to.size());
    return Unit{};
  }

  Result<std::shared_ptr<Module>> load(const Binary& binary) override {
    const auto target = std::find_if(targets_.begin(), targets_.end(),
                                     [&](const Target& t) { return t.name == binary.target; });
    if (target == targets_.end() || binary.format != "host-so")
      return failure("device.failed",
                     fmt::format("{} does not run {} code for {}", name(), binary.format, binary.target));
    auto module = std::make_shared<EmulatedModule>();
    module->file = memfd_create("attnfuse-kernel", MFD_CLOEXEC);
    std::size_t written = 0;
    while (module->file >= 0 && written < binary.bytes.size()) {
      const ssize_t count = write(module->file, binary.bytes.data() + written, binary.bytes.size() - written);
      if (count <= 0) break;
      written += std::size_t(count);
    }
    const std::string path = fmt::format("/proc/self/fd/{}", module->file);
    if (written == binary.bytes.size()) module->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module->handle == nullptr)
      return failure("device.failed", fmt::format("{} cannot load {}: {}", name(), binary.entry,
                                                  written == binary.bytes.size() ? dlerror() : "no memory"));
    module->kernel.entry = module->symbol<void(const void*)>("attnfuse_entry");
    module->kernel.state = module->symbol<LaneState>("attnfuse_state");
    char** begin = module->symbol<char*>("attnfuse_shared_begin");
    char** guard = module->symbol<char*>("attnfuse_guard");
    if (module->kernel.entry == nullptr || module->kernel.state == nullptr || begin == nullptr ||
        guard == nullptr)
      return failure("device.failed", fmt::format("{}: {} was not compiled for it", name(), binary.entry));
    ATTNFUSE_CHECK(*begin <= *guard, "the guard lies after the shared variables");
    module->kernel.shared = {reinterpret_cast<std::byte*>(*begin), std::size_t(*guard - *begin)};
    ATTNFUSE_CHECK(mprotect(*guard, 4096, PROT_NONE) == 0, "the guard is whole pages");
    module->machine.wave_size = target->warp_size;
    module->machine.flushes_denormals = target->arch == "gfx90a";
    return std::shared_ptr<Module>(std::move(module));
  }

  Status launch(const Module& module, const Launch& launch, std::span<const std::byte> params) override {
    const auto& loaded = static_cast<const EmulatedModule&>(module);
    if (launch.threads < 1 || launch.threads > target().max_threads)
      return failure("device.failed", fmt::format("{}: {} threads, the limit is {}", name(), launch.threads,
                                                  target().max_threads));
    Grid grid;
    std::copy(std::begin(launch.grid), std::end(launch.grid), grid.workgroups);
    grid.threads = launch.threads;
    std::vector<std::max_align_t> block(params.size() / sizeof(std::max_align_t) + 1);
    if (!params.empty()) std::memcpy(block.data(), params.data(), params.size());
    return run_grid(loaded.kernel, loaded.machine, grid, options_.order, options_.seed, block.data());
  }

  Status synchronize() override { return Unit{}; }

  Result<double> time(const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    if (Status done = work(); !done) return done.errors();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  Status check_range(const Buffer& buffer, std::size_t offset, std::size_t bytes) const {
    if (offset <= buffer.size() && bytes <= buffer.size() - offset) return Unit{};
    return failure("device.failed", fmt::format("{}: {} bytes at offset {} of a buffer of {}", name(), bytes,
                                                offset, buffer.size()));
  }

  std::vector<Target> targets_;
  EmulatorOptions options_;
};

}  // namespace

std::shared_ptr<Device> make_emulator(std::vector<Target> targets, EmulatorOptions options) {
  return std::make_shared<Emulator>(std::move(targets), options);
}

}  // namespace attnfuse::hip
