// Matrix operations of a wave, element by element, from AMD's instruction set documents: which lane and which
// element of it holds a[m][k], b[k][n] and d[m][n]. Nothing here knows how the emitter arranges tiles.
#pragma once

#include <span>
#include <string>

#include "backends/emulator/lane.h"
#include "backends/hip/emulator/operation.h"

namespace attnfuse::hip {

bool is_matrix(Operation operation);

// d = a b + c over the lanes of one wave. Returns what is wrong with the operands, or an empty string.
std::string multiply(std::span<const emulator::Call> lanes, bool flush_denormals);

}  // namespace attnfuse::hip
