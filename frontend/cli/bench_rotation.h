// attnfuse bench rotation: the cost model of the rotation calculus against the clock.
#pragma once

#include "frontend/cli/command.h"

namespace attnfuse::cli {

void add_bench_rotation(CLI::App& bench, Action& action);

}  // namespace attnfuse::cli
