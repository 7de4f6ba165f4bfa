// For tests of the backward pass: a program made small and fully differentiable, its data, and three answers
// to what its gradients are.
#pragma once

#include <string>
#include <vector>

#include "conformance/data.h"
#include "frontend/spec.h"
#include "runtime/reference_backward.h"

namespace attnfuse::conformance {

struct GradientCase {
  Graph graph;
  HostTensors inputs;
  NamedValues upstream;  // random
  Sizes sizes;
};

// The program in f32 and plain storage, with few heads in the same groups, and the gradient of every captured
// float tensor wanted.
Spec differentiable(Spec spec);
Result<GradientCase> make_gradient_case(const Spec& spec, const Sizes& sizes, std::uint64_t seed);

// What a loss, the sum of upstream gradients times outputs, changes by when `tensor` moves a little, in f32
// steps around its values; and what gradients say of the very same step.
struct Change {
  double found, predicted, scale;  // scale: of the terms that the loss is summed from
};
Change move_tensor(const GradientCase& c, const NamedValues& gradients, const std::string& tensor,
                   std::uint64_t seed);

// What a gradient graph says of the case, by tensor; `saved` as the reference has it.
NamedValues graph_gradients(const GradientCase& c, const Graph& gradient, const NamedValues& saved);

// The largest difference between two answers, relative to the largest magnitude in each tensor; which tensor.
struct Difference {
  double worst = 0;
  std::string tensor;
};
Difference compare_gradients(const NamedValues& got, const NamedValues& wanted);

}  // namespace attnfuse::conformance
