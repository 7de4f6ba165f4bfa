// A kernel's shared object, loaded from memory.
#pragma once

#include <utility>

#include "backends/emulator/lane.h"
#include "runtime/device.h"

namespace attnfuse::emulator {

class LoadedModule : public Module {
 public:
  // Diagnostic "device.failed" of the device `name`.
  static Result<std::shared_ptr<LoadedModule>> load(const Binary& binary, const std::string& name,
                                                    const Target& target);
  explicit LoadedModule(Target target) : target_(std::move(target)) {}
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  ~LoadedModule() override;
  const HostKernel& kernel() const { return kernel_; }
  const Target& target() const { return target_; }

 private:
  Target target_;
  int file_ = -1;
  void* handle_ = nullptr;
  HostKernel kernel_;
};

}  // namespace attnfuse::emulator
