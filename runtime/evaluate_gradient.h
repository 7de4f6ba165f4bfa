// Gradient graphs (ir/gradient.h) on the CPU, in double precision: every value at all of its positions, one
// node after the other. What judges the pass that makes them, and later what kernels made of them are held
// against.
#pragma once

#include "ir/graph.h"
#include "runtime/reference_backward.h"
#include "runtime/tensor.h"

namespace attnfuse {

// The outputs by name, row-major. `inputs`: query, key, value and captured tensors, in plain storage; `rows`:
// what the forward pass saved and the upstream gradients, row-major by name; absent upstream ones are zero.
// Diagnostics as check_inputs.
Result<NamedValues> evaluate_gradient(const Graph& gradient, const HostTensors& inputs,
                                      const NamedValues& rows);

}  // namespace attnfuse
