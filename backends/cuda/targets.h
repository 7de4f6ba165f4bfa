// The NVIDIA architectures this backend writes for, as data.
#pragma once

#include <vector>

#include "ir/target.h"

namespace attnfuse::cuda {
std::vector<Target> targets();
}
