// Random cases from a seed, and the smallest case that still fails.
#pragma once

#include <functional>

#include "conformance/case.h"

namespace attnfuse::conformance {

// Blocks, dims, lengths, layout and data drawn from the seed.
Case random_case(std::uint64_t seed);

// Repeatedly replaces the case by a simpler one (a block less, half a length, plain layout and data) that
// `fails` too, until none does. Only programs that random_case makes lose blocks.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails);

}  // namespace attnfuse::conformance
