// Where an output is wrong: error / budget over two of its axes.
#pragma once

#include <string>
#include <vector>

#include "conformance/oracle.h"

namespace attnfuse::conformance {

struct ErrorMap {
  std::string title;                   // "o[1,3]: rows x columns"
  std::int64_t rows = 0, columns = 0;  // of the output
  // Of blocks of the output, row major: a block is wide enough that there are at most kMost either way.
  std::int64_t height = 0, width = 0;
  std::vector<double> worst;  // infinite where NaN or infinity do not match
  static constexpr std::int64_t kMost = 64;
};

// Of the outputs that are beyond their budget: "o" at the batch entry and head of the worst element by rows
// and columns, and all of them by rows and heads of the worst batch entry.
std::vector<ErrorMap> error_maps(const Graph& graph, const Expectation& expectation,
                                 const OutputValues& outputs);

}  // namespace attnfuse::conformance
