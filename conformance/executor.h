// Runs programs on a device under watch: outputs are NaN before the launch, every buffer stands between guard
// bytes, and after the launch guards, gaps and inputs must hold what they held before.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "conformance/case.h"
#include "conformance/guarded.h"
#include "conformance/oracle.h"
#include "passes/passes.h"
#include "runtime/executable.h"

namespace attnfuse::conformance {

// One call, bound: tensors in device memory, what launches it, its workspace (NaN before the launch).
struct Prepared {
  std::map<std::string, GuardedTensor> tensors;  // inputs and outputs
  std::shared_ptr<Executable> executable;
  std::vector<BoundTensor> bound;
  std::shared_ptr<Buffer> workspace;  // null: none is needed
  const Plan* plan = nullptr;
};

struct Observed {
  HostTensors outputs;  // by name
  OutputValues values;
  std::vector<std::byte> bits;  // of the outputs, elements only
  std::string damage;           // empty, or what was written where nothing may be
};

class Executor {
 public:
  // `target` as find_target takes it; the device is the backend's first one. `options` hold for every kernel,
  // except for the access width, which each call's tensors decide.
  static Result<Executor> open(std::string_view target, CompileOptions options = {});
  static Executor on(Machine machine, CompileOptions options = {}) {
    return {std::move(machine), std::move(options)};
  }

  const Target& target() const { return machine_.target; }
  Device& device() const { return *machine_.device; }
  const Machine& machine() const { return machine_; }

  // Outputs lie as `outputs` says.
  Result<Prepared> prepare(const Graph& graph, const std::string& program_text, const Inputs& inputs,
                           const Sizes& sizes, Layout outputs, Rotation rotation = Rotation::automatic);
  Status launch(const Prepared& call);  // asynchronous
  Result<Observed> read(const Prepared& call) const;

  // Drops what was compiled.
  void forget() { executables_.clear(); }

  // prepare, launch, read.
  Result<Observed> run(const Graph& graph, const Case& c, const Inputs& inputs);

 private:
  Executor(Machine machine, CompileOptions options)
      : machine_(std::move(machine)), options_(std::move(options)) {}
  // Compiled once per program text and rotation.
  Result<std::shared_ptr<Executable>> executable(const Graph& graph, const std::string& program_text,
                                                 Rotation rotation);

  Machine machine_;
  CompileOptions options_;
  std::map<std::string, std::shared_ptr<Executable>> executables_;
};

}  // namespace attnfuse::conformance
