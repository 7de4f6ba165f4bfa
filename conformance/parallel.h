// Runs cases on several executors at once, each with a device of its own.
#pragma once

#include <functional>
#include <vector>

#include "conformance/run.h"

namespace attnfuse::conformance {

struct Progress {
  std::function<void(std::size_t worker, const Case& c)> begins;
  std::function<void(const Outcome& outcome)> ended;
};

// Outcomes in the order of the cases. The calls of `progress` never overlap.
std::vector<Outcome> run_cases(std::vector<Executor>& executors, const std::vector<Case>& cases,
                               const Progress& progress);

}  // namespace attnfuse::conformance
