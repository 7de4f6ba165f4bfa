// Which device a command uses when none is named.
#pragma once

#include <string>

#include "ir/diagnostic.h"

namespace attnfuse::cli {

// The first backend, in order of preference, that opens a device. Otherwise one diagnostic per backend.
Result<std::string> best_device();

}  // namespace attnfuse::cli
