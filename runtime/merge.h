// Merge: outputs of one program over disjoint sets of keys become its outputs over all of these keys, where
// the keys lie on several devices, or come one set after the other (context parallelism). Weighted by
// exp(lse), the merge is associative and commutative, up to rounding, and (0, -inf) is its neutral element;
// what a part with lse = -inf holds in o is never looked at. A part whose lse is NaN or +inf makes the row
// NaN, and an o that is not finite makes its element so.
//
// A call has the tensors, in the program's dtype and f32:
//   o_parts [b, parts, h, sq, dv], lse_parts [b, parts, h, sq]     o and lse of each part
//   o [b, h, sq, dv], lse [b, h, sq]                               of all, as the program has them
// of ragged programs without b, and total_q in place of sq. Strides are free but for the last of o_parts and
// o; outputs do not overlap parts.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ir/storage.h"
#include "runtime/argument_block.h"
#include "runtime/machine.h"
#include "runtime/plan.h"

namespace attnfuse {

// "merge.program": outputs of the program over parts do not give that over all keys, and why.
Diagnostics check_merge(const Graph& graph);

// In this order.
std::vector<CallTensor> merge_tensors(const ProgramInfo& info, std::int64_t parts);

// "input.*" and "output.*", as check_call for calls of the program.
Status check_merge_call(const ProgramInfo& info, const std::map<std::string, TensorLayout>& tensors);

class Merge {
 public:
  // Compiles what aligned tensors need. The cache outlives the merge. Diagnostics: those of check_merge and
  // of compiling.
  static Result<std::shared_ptr<Merge>> prepare(const Graph& graph, const Machine& machine);
  static Result<std::shared_ptr<Merge>> prepare(const Graph& graph, const Machine& machine,
                                                KernelCache& cache);

  const ProgramInfo& info() const { return graph_.info(); }

  // Asynchronous; one launch where the parts of a batch entry lie beside those of the next, else one for each
  // entry. Tensors in the order of merge_tensors. Diagnostics: "input.*", "output.*", and the device's.
  Status launch(std::span<const BoundTensor> tensors, void* stream = nullptr);

 private:
  struct Bound {
    Kernel kernel;
    ArgumentBlock arguments;
  };
  Merge(const Graph& graph, Machine machine, KernelCache& cache)
      : graph_(graph), machine_(std::move(machine)), cache_(cache) {}
  Result<Bound*> bound_kernel(Access access);

  Graph graph_;
  Machine machine_;
  KernelCache& cache_;
  std::mutex mutex_;  // of the kernels
  std::unique_ptr<Bound> by_vector_, by_element_;
};

// The same on the CPU, in double precision by plain loops: o_parts and lse_parts to o and lse, contiguous.
Result<HostTensors> reference_merge(const Graph& graph, const HostTensors& parts);

}  // namespace attnfuse
