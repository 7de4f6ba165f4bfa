// The AMD architectures this backend writes for, as data.
#pragma once

#include <vector>

#include "ir/target.h"

namespace attnfuse::hip {
std::vector<Target> targets();
}
