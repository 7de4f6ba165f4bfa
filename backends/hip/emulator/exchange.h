// Operations in which a lane reads one 32-bit value of another lane of its wave.
#pragma once

#include <span>
#include <string>

#include "backends/emulator/lane.h"

namespace attnfuse::hip {

// Returns what is wrong with the operands, or an empty string.
std::string exchange(std::span<const emulator::Call> lanes);

}  // namespace attnfuse::hip
