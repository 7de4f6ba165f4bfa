// Matrix operations of a wave, element by element, from AMD's instruction set documents: which lane and which
// element of it holds a[m][k], b[k][n] and d[m][n]. Nothing here knows how the emitter arranges tiles.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "backends/hip/emulator/operation.h"

namespace attnfuse::hip {

struct LaneOperands {
  const void* operands = nullptr;
  void* result = nullptr;
};

bool is_matrix(Operation operation);

// d = a b + c over the lanes of one wave. Returns what is wrong with the operands, or an empty string.
std::string multiply(Operation operation, std::span<const LaneOperands> lanes, bool flush_denormals);

}  // namespace attnfuse::hip
