// The reference: the program's first graph evaluated in double precision by plain loops over b, h, i, j, d.
// It knows nothing of tiles, passes or schedules, so that it can judge them.
#pragma once

#include <span>

#include "ir/storage.h"
#include "runtime/tensor.h"

namespace attnfuse {

// Where a same-dtype implementation would round: none for the oracle, the program's dtype for the naive run
// whose error calibrates tolerances (transformed q, k, v and the probabilities in the dtype, every
// intermediate in f32).
enum class Rounding : std::uint8_t { none, naive };

// Row-major values. Rounding::none: as computed, in double; naive: o rounded to the dtype, lse to f32.
struct ReferenceOutputs {
  Sizes sizes;
  std::vector<double> o;          // [b,h,sq,v_head_dim]
  std::vector<double> lse;        // [b,h,sq]
  std::vector<double> max_logit;  // [b,h,sq], of programs that have it
  std::vector<double> lse2;       // [b,h,sq], of programs with a second score head
};

// Inputs by name: q, k, v and the captured tensors, in plain storage. Diagnostics as check_inputs.
Result<ReferenceOutputs> reference(const Graph& graph, const HostTensors& inputs,
                                   Rounding rounding = Rounding::none);

// Shapes, dtypes and strides of all inputs against the program and its storage form: "input.missing",
// "input.dtype", "input.shape", "input.stride", "input.unknown".
Result<Sizes> check_inputs(const Graph& graph, const std::map<std::string, TensorLayout>& inputs);
// The same of a whole call, with its outputs (call_tensors): also
// "output.missing", "output.dtype", "output.shape", "output.stride".
Result<Sizes> check_call(const Graph& graph, const std::map<std::string, TensorLayout>& tensors);
// The same of any tensors, in a program's sizes.
Result<Sizes> check_tensors(const ProgramInfo& info, std::span<const CallTensor> declared,
                            const std::map<std::string, TensorLayout>& given);
// Also that each tensor holds the bytes its layout spans: "input.bytes".
Result<Sizes> check_inputs(const Graph& graph, const HostTensors& inputs);

}  // namespace attnfuse
