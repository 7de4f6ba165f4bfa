#include "conformance/plugin_example/device.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "runtime/process.h"

namespace cpp_backend {
namespace {

using attnfuse::Diagnostic;
using attnfuse::Result;
using attnfuse::Status;
using attnfuse::Unit;

Diagnostic failed(std::string message) { return {"device.failed", std::move(message), {}, ""}; }

class HostBuffer : public attnfuse::Buffer {
 public:
  static constexpr std::size_t kAlignment = 256;
  explicit HostBuffer(std::size_t bytes) : size_(bytes) {
    const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded >= bytes) data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() override { std::free(data_); }
  std::uint64_t address() const override { return reinterpret_cast<std::uint64_t>(data_); }
  std::size_t size() const override { return size_; }
  std::byte* data() const { return data_; }

 private:
  std::size_t size_;
  std::byte* data_ = nullptr;
};

using Kernel = void (*)(const void* arguments, int block);

class HostModule : public attnfuse::Module {
 public:
  HostModule(void* library, Kernel kernel) : library_(library), kernel_(kernel) {}
  HostModule(const HostModule&) = delete;
  HostModule& operator=(const HostModule&) = delete;
  ~HostModule() override { dlclose(library_); }
  Kernel kernel() const { return kernel_; }

 private:
  void* library_;
  Kernel kernel_;
};

class Host : public attnfuse::Device {
 public:
  explicit Host(attnfuse::Target target) : target_(std::move(target)) {}

  std::string name() const override { return "this machine, as plain C++"; }
  attnfuse::Target target() const override { return target_; }

  Result<std::shared_ptr<attnfuse::Buffer>> allocate(std::size_t bytes) override {
    auto buffer = std::make_shared<HostBuffer>(bytes);
    if (buffer->data() == nullptr)
      return Diagnostic{"device.out-of-memory", fmt::format("no memory for {} bytes", bytes), {}, ""};
    return std::shared_ptr<attnfuse::Buffer>(std::move(buffer));
  }

  Status upload(attnfuse::Buffer& to, std::size_t offset, std::span<const std::byte> from) override {
    if (offset > to.size() || from.size() > to.size() - offset) return failed("an upload past the end");
    if (!from.empty()) std::memcpy(static_cast<HostBuffer&>(to).data() + offset, from.data(), from.size());
    return Unit{};
  }

  Status download(const attnfuse::Buffer& from, std::size_t offset, std::span<std::byte> to) override {
    if (offset > from.size() || to.size() > from.size() - offset) return failed("a download past the end");
    if (!to.empty()) std::memcpy(to.data(), static_cast<const HostBuffer&>(from).data() + offset, to.size());
    return Unit{};
  }

  Result<std::shared_ptr<attnfuse::Module>> load(const attnfuse::Binary& binary) override {
    auto directory = attnfuse::TemporaryDirectory::create();
    if (!directory) return directory.errors();
    const std::string path = directory->path() / "kernel.so";
    const std::string_view image(reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size());
    if (auto written = attnfuse::write_file(path, image); !written) return written.errors();
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return failed(dlerror());
    const auto kernel = reinterpret_cast<Kernel>(dlsym(library, binary.entry.c_str()));
    if (kernel == nullptr) {
      dlclose(library);
      return failed(fmt::format("there is no kernel {}", binary.entry));
    }
    return std::shared_ptr<attnfuse::Module>(std::make_shared<HostModule>(library, kernel));
  }

  Status launch(const attnfuse::Module& module, const attnfuse::Launch& launch,
                std::span<const std::byte> params) override {
    const Kernel kernel = static_cast<const HostModule&>(module).kernel();
    std::vector<std::uint64_t> block(params.size() / sizeof(std::uint64_t) + 1);
    if (!params.empty()) std::memcpy(block.data(), params.data(), params.size());
    // Workgroups are numbered along x first; those past the last one return at once.
    const auto count = int(launch.grid[0] * launch.grid[1]);
    std::atomic<int> next = 0;
    const auto work = [&] {
      for (int number = next++; number < count; number = next++) kernel(block.data(), number);
    };
    std::vector<std::jthread> threads;
    for (unsigned n = 1; n < std::min<unsigned>(std::thread::hardware_concurrency(), unsigned(count)); ++n)
      threads.emplace_back(work);
    work();
    return Unit{};
  }

  Status synchronize() override { return Unit{}; }

  Result<double> time(const std::function<Status()>& work) override {
    const auto begin = std::chrono::steady_clock::now();
    if (auto done = work(); !done) return done.errors();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  attnfuse::Target target_;
};

}  // namespace

std::shared_ptr<attnfuse::Device> make_device(attnfuse::Target target) {
  return std::make_shared<Host>(std::move(target));
}

}  // namespace cpp_backend
