// Runs one case on a device under watch: outputs are NaN before the launch, every buffer stands between guard
// bytes, and after the launch guards, gaps and inputs must hold what they held before.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "conformance/case.h"
#include "conformance/data.h"
#include "conformance/oracle.h"
#include "runtime/execute.h"

namespace attnfuse::conformance {

struct Observed {
  OutputValues values;
  std::vector<std::byte> bits;  // of o and lse, elements only
  std::string damage;           // empty, or what was written where nothing may be
};

class Executor {
 public:
  // `target` as find_target takes it; the device is the backend's first one.
  static Result<Executor> open(std::string_view target);

  const Target& target() const { return target_; }
  Device& device() const { return *device_; }

  // Compiled once per program and access width.
  Result<const Kernel*> kernel(const Graph& graph, const std::string& program_text, int vector_bytes);
  Result<Observed> run(const Graph& graph, const Case& c, const Inputs& inputs);

 private:
  Executor(const Backend& backend, std::shared_ptr<Device> device, Target target)
      : backend_(&backend), device_(std::move(device)), target_(std::move(target)) {}

  const Backend* backend_;
  std::shared_ptr<Device> device_;
  Target target_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace attnfuse::conformance
