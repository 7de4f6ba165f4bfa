// Support mode: every program is either refused at build time with a diagnostic, or compiles and, where a
// device is present, passes. Nothing crashes in between.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/run.h"

namespace attnfuse::conformance {

// One cell of the matrix.
struct SupportCell {
  std::string target;
  DType dtype;
  int head_dim, v_head_dim;
  enum class State : std::uint8_t { passes, compiles, emits, refused, broken } state;
  std::string message;  // why refused or broken
};

using SupportProgress = std::function<void(const SupportCell&)>;

// dtypes x head dims on each target; `executor` runs the cells of its own target.
std::vector<SupportCell> support_matrix(const std::vector<Target>& targets, Executor* executor,
                                        const SupportProgress& progress = {});

// Rows are target and dtype, columns head dims.
std::string support_table(const std::vector<SupportCell>& cells);

}  // namespace attnfuse::conformance
