// Plan: the kernels of one call in their order, and the tensors that they hand on to each other in a
// workspace. A planner makes plans for one graph on one device; an Executable (executable.h) keeps and
// launches them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tile.h"
#include "passes/passes.h"
#include "runtime/argument_block.h"
#include "runtime/device.h"

namespace attnfuse {

class KernelCache;
struct Machine;

// A compiled kernel on a device.
struct Kernel {
  TileProgram program;
  Binary binary;
  std::shared_ptr<Module> module;
};

struct Step {
  std::shared_ptr<const Kernel> kernel;
  // The kernel's name of a tensor -> the call's or the workspace's, where they differ.
  std::map<std::string, std::string> renamed = {};
  bool overlaps_previous = false;  // the kernel waits by itself for what the step ahead of it writes
  // Of calls with one query row: the kernel sees the heads that share keys as rows (passes/group_queries.h).
  bool groups_queries = false;
  bool divides_keys = false;  // its batch counts shares, see TileProgram::shares
};

// Contiguous, at a multiple of kWorkspaceAlignment bytes.
struct WorkspaceTensor {
  std::string name;
  DType dtype;
  std::vector<Extent> shape;
  bool by_share = false;  // the first extent is that for each share of the keys
};
inline constexpr std::size_t kWorkspaceAlignment = 256;

struct Plan {
  std::vector<Step> steps;
  std::vector<WorkspaceTensor> workspace = {};
};

class Planner {
 public:
  virtual ~Planner() = default;
  // Plans may differ with the sizes of a call: the number of the one that suits these. Called for every
  // launch. 0: what most calls want.
  virtual int variant(const Sizes&) const { return 0; }
  // Shares of the keys in calls of these sizes.
  virtual int shares(const Sizes&) const { return 1; }
  // A plan for calls whose tensors allow `access`. Workspaces of one variant are the largest at the widest
  // access.
  virtual Result<Plan> plan(int variant, Access access) = 0;
};

Result<std::shared_ptr<const Kernel>> load_kernel(const Graph& graph, const Machine& machine,
                                                  const CompileOptions& options, KernelCache& cache);

// One kernel for all of the graph. `options` apart from what the access decides. The cache outlives the
// planner.
std::unique_ptr<Planner> one_kernel(Graph graph, Machine machine, CompileOptions options, KernelCache& cache);

}  // namespace attnfuse
