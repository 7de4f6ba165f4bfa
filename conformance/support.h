// Support mode: every program is either refused at build time with a diagnostic, or compiles and, where a
// device is present, passes. Nothing crashes in between.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/run.h"

namespace attnfuse::conformance {

// One program on one target.
struct SupportCell {
  std::string target;
  DType dtype = DType::f16;
  int head_dim = 0, v_head_dim = 0;
  enum class State : std::uint8_t { passes, compiles, emits, refused, broken } state = State::broken;
  std::string leaf = {};     // the matrix product that its kernel uses
  std::string message = {};  // why refused or broken
};

// source: passes, schedule and emission, the same on every machine. binary: also the assembler where there is
// one, and execution where there is a device.
enum class SupportDepth : std::uint8_t { source, binary };
using SupportProgress = std::function<void(const SupportCell&)>;

// dtypes x head dims on each target, in that order; `executor` runs the cells of its own target.
std::vector<SupportCell> support_matrix(const std::vector<Target>& targets, SupportDepth depth,
                                        Executor* executor, const SupportProgress& progress = {});

// Markdown: a row for the targets that are alike, a column for each dtype, ranges of head dims in the cells
// where not all are alike; then what is refused, with its diagnostic.
std::string support_table(const std::vector<SupportCell>& cells);

}  // namespace attnfuse::conformance
