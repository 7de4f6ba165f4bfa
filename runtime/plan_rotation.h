// Plans with kernels ahead of attention: transforms of queries and keys, where the rotation calculus
// (passes/rotation.h) or the caller says so, and key bounds that only data tell (passes/data_bounds.h).
#pragma once

#include "passes/rotation.h"
#include "runtime/plan.h"

namespace attnfuse {

// Makes plans for `graph` as options.rotation says; automatic ones differ with the sizes of a call. The cache
// outlives the planner. With TransformRows::newest the workspace is a cache: its older keys are transformed
// already, as an earlier call left them, and the pre-pass of the keys adds the newest sq.
std::unique_ptr<Planner> rotation_planner(Graph graph, Machine machine, CompileOptions options,
                                          KernelCache& cache, TransformRows keys = TransformRows::all);

}  // namespace attnfuse
