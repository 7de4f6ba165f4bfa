// attnfuse bench rotation: the cost model of the rotation calculus against the clock.
#pragma once

#include "frontend/cli/command.h"

namespace attnfuse::cli {

Command bench_rotation_command();

}  // namespace attnfuse::cli
