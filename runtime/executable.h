// Executable: a graph compiled for one machine, launched again and again on tensors of any sizes. What the C
// API and the conformance executor launch with. A launch costs microseconds of host time: after the first one
// of its kind it allocates nothing, loads nothing and waits for nothing, so it can be recorded into a device
// graph. All functions may be called from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/storage.h"
#include "runtime/argument_block.h"
#include "runtime/counters.h"
#include "runtime/execute.h"
#include "runtime/machine.h"
#include "runtime/plan.h"

namespace attnfuse {

// Where a launch goes.
struct LaunchSite {
  void* stream = nullptr;
  std::uint64_t workspace = 0;      // device address, a multiple of kWorkspaceAlignment
  std::size_t workspace_bytes = 0;  // at least workspace_bytes(sizes)
};

class Executable {
 public:
  // Compiles what calls with aligned tensors need; what others need is compiled by the first one of them. The
  // cache outlives the executable.
  static Result<std::shared_ptr<Executable>> prepare(const Graph& graph, const Machine& machine,
                                                     const CompileOptions& options = {});
  static Result<std::shared_ptr<Executable>> prepare(const Graph& graph, const Machine& machine,
                                                     const CompileOptions& options, KernelCache& cache);
  static Result<std::shared_ptr<Executable>> prepare(const Graph& graph, const Machine& machine,
                                                     std::unique_ptr<Planner> planner);

  const Machine& machine() const { return machine_; }
  const Graph& graph() const { return graph_; }
  // Of a call's tensors, in the order of call_tensors(): "q", "k", "v", captured ones, those of the storage
  // form, outputs ("o", "lse", ...).
  const std::vector<std::string>& tensor_names() const { return names_; }
  std::span<const CallTensor> tensors() const { return declared_; }
  // The tensors in that order. Diagnostics: those of check_call.
  Result<std::vector<BoundTensor>> bind(const DeviceTensors& tensors) const;

  // The sizes of a call that can be launched: "input.*" and "output.*" for tensors that do not fit the
  // program, or what stops its kernels from being compiled.
  Result<Sizes> supports(std::span<const BoundTensor> tensors);
  // What such a call runs. Diagnostics: those of supports.
  Result<const Plan*> plan_for(std::span<const BoundTensor> tensors);
  Result<std::size_t> workspace_bytes(const Sizes& sizes);

  // Asynchronous. Nothing is launched when a diagnostic is returned, unless the device failed between two
  // kernels of one plan. Diagnostics: those of supports, "launch.workspace", "launch.counters", and the
  // device's.
  Status launch(std::span<const BoundTensor> tensors, const LaunchSite& site = {});

 private:
  // A plan, with all that does not change from launch to launch.
  struct Bound {
    Plan plan;
    struct StepState {
      ArgumentBlock arguments;
      std::optional<Counters> counters;
      // Of a step that groups queries: which of the tensors below have a row for each head.
      std::vector<std::size_t> by_head;
    };
    std::vector<StepState> steps;
    std::vector<BoundTensor> tensors;  // of the call, then of the workspace
    std::vector<BoundTensor> grouped;  // the same, as a step that groups queries sees them
  };
  struct Kept {
    int variant;
    Access access;
    std::shared_ptr<Bound> bound;
  };

  Executable(Graph graph, Machine machine, std::unique_ptr<Planner> planner);

  std::optional<Sizes> quick_check(std::span<const BoundTensor> tensors) const;
  Result<Sizes> check(std::span<const BoundTensor> tensors) const;
  Access access_of_call(std::span<const BoundTensor> tensors) const;
  // The plan for these, made when it is first asked for.
  Result<Bound*> bound_plan(const Sizes& sizes, Access access);
  Result<std::shared_ptr<Bound>> make_plan(int variant, Access access);
  // The sizes, and into how many shares the keys are divided.
  Sizes divided(Sizes sizes) const;
  std::size_t place_workspace(Bound& bound, const Sizes& sizes, std::uint64_t address) const;

  Graph graph_;
  Machine machine_;
  std::unique_ptr<Planner> planner_;
  std::vector<std::string> names_;
  std::vector<CallTensor> declared_;
  int engine_alignment_ = 0;
  std::mutex mutex_;  // of all below
  std::vector<Kept> plans_;
};

}  // namespace attnfuse
