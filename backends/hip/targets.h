// The AMD architectures this backend writes for, as data.
#pragma once

#include <string>
#include <vector>

#include "ir/target.h"

namespace attnfuse::hip {
// "hip" for GPUs, "hip-cpu" for the emulator: the same machines under another name.
std::vector<Target> targets(const std::string& backend = "hip");
}  // namespace attnfuse::hip
