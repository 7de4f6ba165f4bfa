#include "backends/emulator/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "backends/emulator/fault.h"
#include "backends/emulator/module.h"

namespace attnfuse::emulator {
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

// The argument block, aligned as the strictest of its members.
struct alignas(128) ParameterLine {
  std::byte bytes[128];
};

class Emulator : public Device {
 public:
  Emulator(Description description, Options options)
      : description_(std::move(description)), options_(options) {}

  std::string name() const override { return description_.name; }
  Target target() const override { return description_.targets.front(); }
  std::vector<Target> targets() const override { return description_.targets; }

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
    const std::vector<Target>& all = description_.targets;
    const auto target = std::ranges::find_if(all, [&](const Target& t) { return t.name == binary.target; });
    if (target == all.end() || binary.format != "host-so")
      return failure("device.failed",
                     fmt::format("{} does not run {} code for {}", name(), binary.format, binary.target));
    auto module = LoadedModule::load(binary, name(), *target);
    if (!module) return module.errors();
    return std::shared_ptr<Module>(*module);
  }

  Status launch(const Module& module, const Launch& launch, std::span<const std::byte> params) override {
    const auto& loaded = static_cast<const LoadedModule&>(module);
    if (launch.threads < 1 || launch.threads > loaded.target().max_threads)
      return failure("device.failed", fmt::format("{}: {} threads, the limit is {}", name(), launch.threads,
                                                  loaded.target().max_threads));
    std::vector<ParameterLine> block(params.size() / sizeof(ParameterLine) + 1);
    if (!params.empty()) std::memcpy(block.data(), params.data(), params.size());
    std::ranges::copy(launch.grid, loaded.kernel().state->grid);
    Workgroup group(loaded.kernel(), launch.threads, block.data(), options_);
    try {
      const std::unique_ptr<Machine> machine = description_.machine(group, loaded.target(), launch);
      return run_grid(group, *machine, launch);
    } catch (const Failure& unfit) {
      return unfit.diagnostic;
    }
  }

  Result<EncodedTensorMap> encode(const TensorMap& map) override {
    return description_.encode != nullptr ? description_.encode(map) : Device::encode(map);
  }

  Status synchronize() override { return Unit{}; }
  bool watches_kernels() const override { return true; }

  Result<double> time(const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    if (Status done = work(); !done) return done.errors();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  // One workgroup after the other.
  static Status run_grid(Workgroup& group, Machine& machine, const Launch& launch) {
    const FaultGuard guard(group.escape());
    std::uint64_t number = 0;
    for (std::uint32_t z = 0; z < launch.grid[2]; ++z)
      for (std::uint32_t y = 0; y < launch.grid[1]; ++y)
        for (std::uint32_t x = 0; x < launch.grid[0]; ++x)
          if (Status status = group.run(machine, {x, y, z}, number++); !status) return status;
    return Unit{};
  }

  Status check_range(const Buffer& buffer, std::size_t offset, std::size_t bytes) const {
    if (offset <= buffer.size() && bytes <= buffer.size() - offset) return Unit{};
    return failure("device.failed", fmt::format("{}: {} bytes at offset {} of a buffer of {}", name(), bytes,
                                                offset, buffer.size()));
  }

  Description description_;
  Options options_;
};

}  // namespace

std::shared_ptr<Device> make_device(Description description, Options options) {
  return std::make_shared<Emulator>(std::move(description), options);
}

}  // namespace attnfuse::emulator
