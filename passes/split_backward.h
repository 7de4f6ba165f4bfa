// split_backward: which kernel of the backward pass computes a value of a gradient graph. differentiate()
// keeps sums of different kernels apart by it, and lowering takes from it what each kernel does:
//
//   preprocess   once per query row, before: dO through the adjoint of the output expression, delta = the sum
//   over
//                d of dO * O minus dlse, the sink's gradient, those of tensors that output expressions read.
//                Leaves rows {b,h,i} and {b,h,i,d} in memory.
//   main         keys and values stay, query tiles that the mask allows pass by, all heads of the group one
//   after
//                the other: P again from the saved lse, dP, dS on the score tile; dV' and dK' in
//                accumulators, which the adjoints of the keys' and values' transforms follow in the epilogue,
//                without memory between; sums into captured tensors are made in the workgroup before they
//                reach memory, so that no S x S value does. dQ' = contract j is summed across workgroups, in
//                f32.
//   postprocess  once per query row, after: dQ' through the adjoint of the queries' transform (a rotation
//   back, a
//                norm's), rounded; gradients of tensors that query expressions read.
//
// What depends on the program's own tensors alone (transformed rows, masks, tables) is shared: whoever reads
// it computes it. Apart from that values go one way: rows from preprocess to the others, dQ' from main to
// postprocess.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace attnfuse {

enum class BackwardPart : std::uint8_t { shared, preprocess, main, postprocess };
std::string_view name(BackwardPart part);

// Of every node of a graph that may still grow.
class BackwardParts {
 public:
  BackwardPart of(const Graph& gradient, NodeId id);

 private:
  std::vector<BackwardPart> parts_;
  std::vector<bool> reads_rows_;  // depends on saved or upstream tensors
};

struct BackwardSplit {
  std::vector<BackwardPart> parts;  // by node; of an output that of its last operand
  std::vector<NodeId> rows;         // what preprocess leaves in memory for the others
  std::vector<NodeId> dq;           // what main sums for postprocess
};
// Of the live nodes of a gradient graph; dead ones count as shared.
BackwardSplit split_backward(const Graph& gradient);

}  // namespace attnfuse
