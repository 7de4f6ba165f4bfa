// Calls whose outputs follow from those of another call, whatever the kernel does inside: no oracle knows
// more.
#pragma once

#include <vector>

#include "conformance/data.h"
#include "conformance/oracle.h"

namespace attnfuse::conformance {

// The part [first, first + count) of every tensor's dimensions of that size, contiguous; with `reversed`,
// from the last to the first.
Inputs part_of(const Graph& graph, const Inputs& inputs, Size size, std::int64_t first, std::int64_t count,
               bool reversed = false);

// The outputs of a softmax over all keys from those over two parts of them.
OutputValues merged(const OutputValues& a, const OutputValues& b, std::int64_t v_head_dim);

// The program with a constant added to all of its scores.
std::string with_shifted_scores(const std::string& program, double by);

}  // namespace attnfuse::conformance
