// differentiate: a program in, its gradient graph out (ir/gradient.h). Ahead of every other pass, as it reads
// the program as written: simplify may exchange the operands of min and max, whose order says who gets the
// gradient of a tie.
//
// Where a derivative does not exist: min and max give all to their first operand when both are equal, abs
// gives none at 0, comparisons and roundings give none, a largest element along d shares with those that
// equal it, the largest score of a row is the first key's that has it, or the sink's when that is as large.
#pragma once

#include "ir/graph.h"

namespace attnfuse {

// The gradients of query, key, value and of every captured tensor marked `grad`; simplified, verified.
// Diagnostics: "gradient.discrete", a wanted gradient that is zero because the tensor is read in masks,
// comparisons and roundings alone; "gradient.name", a captured tensor called as an upstream one or as an
// output; "gradient.score-heads", of two.
Result<Graph> differentiate(const Graph& program);

}  // namespace attnfuse
