// What a case must give: the double-precision reference, and the error that rounding at the program's dtype
// costs a straightforward implementation, which calibrates the comparison.
#pragma once

#include "conformance/compare.h"
#include "conformance/data.h"
#include "runtime/reference.h"

namespace attnfuse::conformance {

struct Expectation {
  ReferenceOutputs exact, naive;
  ErrorModel o_model, lse_model, max_logit_model, lse2_model;
};

// Of a program in plain storage; of others see stored.h.
Result<Expectation> expect(const Graph& graph, const Inputs& inputs);
// Of answers that are known already.
Expectation calibrated(const Graph& graph, ReferenceOutputs exact, ReferenceOutputs naive,
                       double value_scale);

// Outputs of one run as numbers, row major: o [b,h,sq,v_head_dim], lse [b,h,sq], and
// max_logit and lse2 [b,h,sq] where the program has them. Ragged: [h,total_q,...].
struct OutputValues {
  std::vector<double> o, lse, max_logit = {}, lse2 = {};
};

struct Judgement {
  bool equal = true;
  double worst_ratio = 0;  // error / budget
  double o_error = 0, lse_error = 0;
  std::string message;
};
Judgement judge(const Graph& graph, const Expectation& expectation, const OutputValues& outputs);

}  // namespace attnfuse::conformance
