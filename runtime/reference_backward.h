// The reference's backward: gradients of the first graph in double precision by plain loops over b, h, i, j,
// d. Attention itself is differentiated by hand, expressions in forward mode (runtime/dual_row.h). It shares
// nothing with the compiler's derivatives, so that it can judge them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse {

using NamedValues = std::map<std::string, std::vector<double>>;

struct ReferenceGradients {
  // Row-major, by tensor: q, k, v and the captured tensors marked `grad`, whether the program reads them or
  // not.
  NamedValues gradients;
  // Row-major, what the forward pass leaves for the backward, by the names of ir/gradient.h.
  NamedValues saved;
};

// `upstream` has the gradients of outputs by their names, row-major: o, lse, max_logit; absent ones are zero.
// That of a minus infinite lse is never read. Derivatives where there are none: passes/differentiate.h.
Result<ReferenceGradients> reference_backward(const Graph& graph, const HostTensors& inputs,
                                              const NamedValues& upstream);

}  // namespace attnfuse
