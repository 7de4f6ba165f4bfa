#include "backends/emulator/module.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace attnfuse::emulator {
namespace {

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(file, bytes.data(), bytes.size());
    if (count <= 0) return false;
    bytes = bytes.subspan(std::size_t(count));
  }
  return true;
}

template <class T>
T* symbol(void* handle, const char* name) {
  return reinterpret_cast<T*>(dlsym(handle, name));
}

}  // namespace

LoadedModule::~LoadedModule() {
  if (handle_ != nullptr) dlclose(handle_);
  if (file_ >= 0) close(file_);
}

Result<std::shared_ptr<LoadedModule>> LoadedModule::load(const Binary& binary, const std::string& name,
                                                         const Target& target) {
  const auto failure = [&](const std::string& why) {
    return Diagnostic{"device.failed", fmt::format("{} cannot load {}: {}", name, binary.entry, why), {}, ""};
  };
  auto module = std::make_shared<LoadedModule>(target);
  module->file_ = memfd_create("attnfuse-kernel", MFD_CLOEXEC);
  if (module->file_ < 0 || !write_all(module->file_, binary.bytes)) return failure("no memory");
  const std::string path = fmt::format("/proc/self/fd/{}", module->file_);
  module->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module->handle_ == nullptr) return failure(dlerror());
  HostKernel& kernel = module->kernel_;
  kernel.entry = symbol<void(const void*)>(module->handle_, "attnfuse_entry");
  kernel.state = symbol<LaneState>(module->handle_, "attnfuse_state");
  char** begin = symbol<char*>(module->handle_, "attnfuse_shared_begin");
  char** guard = symbol<char*>(module->handle_, "attnfuse_guard");
  if (kernel.entry == nullptr || kernel.state == nullptr || begin == nullptr || guard == nullptr)
    return failure("it was not compiled for this machine");
  ATTNFUSE_CHECK(*begin <= *guard, "the guard lies after the shared variables");
  kernel.shared = {reinterpret_cast<std::byte*>(*begin), std::size_t(*guard - *begin)};
  ATTNFUSE_CHECK(mprotect(*guard, 4096, PROT_NONE) == 0, "the guard is whole pages");
  return module;
}

}  // namespace attnfuse::emulator
