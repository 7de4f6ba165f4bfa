// Runs programs on a device under watch: outputs are NaN before the launch, every buffer stands between guard
// bytes, and after the launch guards, gaps and inputs must hold what they held before.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "conformance/case.h"
#include "conformance/guarded.h"
#include "conformance/oracle.h"

namespace attnfuse::conformance {

// One call, bound: tensors in device memory, the kernel, its arguments.
struct Prepared {
  std::map<std::string, GuardedTensor> tensors;  // inputs, "o" and "lse"
  const Kernel* kernel = nullptr;
  Launch launch;
  std::vector<std::byte> params;
};

struct Observed {
  HostTensor o, lse;
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

  // Compiled once per program text and access width.
  Result<const Kernel*> kernel(const Graph& graph, const std::string& program_text, int vector_bytes);

  // Outputs lie as `outputs` says.
  Result<Prepared> prepare(const Graph& graph, const std::string& program_text, const Inputs& inputs,
                           const Sizes& sizes, Layout outputs);
  Status launch(const Prepared& call);  // asynchronous
  Result<Observed> read(const Prepared& call);

  // prepare, launch, read.
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
