#include "runtime/plan.h"
#include "runtime/compile.h"
#include "runtime/machine.h"

namespace attnfuse {
namespace {

class OneKernel : public Planner {
 public:
  OneKernel(Graph graph, Machine machine, CompileOptions options, KernelCache& cache)
      : graph_(std::move(graph)), machine_(std::move(machine)), options_(std::move(options)), cache_(cache) {}

  Result<Plan> plan(int, Access access) override {
    CompileOptions options = options_;
    options.copy_engine = access == Access::copy_engine;
    options.vector_bytes = access == Access::element ? size_in_bytes(graph_.info().dtype) : 16;
    auto kernel = load_kernel(graph_, machine_, options, cache_);
    if (!kernel) return kernel.errors();
    return Plan{{Step{std::move(kernel).value()}}};
  }

 private:
  Graph graph_;
  Machine machine_;
  CompileOptions options_;
  KernelCache& cache_;
};

}  // namespace

Result<std::shared_ptr<const Kernel>> load_kernel(const Graph& graph, const Machine& machine,
                                                  const CompileOptions& options, KernelCache& cache) {
  auto compiled = compile(graph, *machine.backend, machine.target, options, cache);
  if (!compiled) return compiled.errors();
  auto made = std::move(compiled).value();
  auto module = machine.device->load(made.binary);
  if (!module) return module.errors();
  return std::shared_ptr<const Kernel>(std::make_shared<Kernel>(
      Kernel{std::move(made.program), std::move(made.binary), std::move(module).value()}));
}

std::unique_ptr<Planner> one_kernel(Graph graph, Machine machine, CompileOptions options,
                                    KernelCache& cache) {
  return std::make_unique<OneKernel>(std::move(graph), std::move(machine), std::move(options), cache);
}

}  // namespace attnfuse
