// Random cases from a seed, and the smallest case that still fails.
#pragma once

#include <functional>

#include "conformance/case.h"

namespace attnfuse::conformance {

// Program, lengths, layout, data and check drawn from the seed.
Case random_case(std::uint64_t seed);

// Repeatedly replaces the case by a simpler one (a statement less, a part of a mask, half a length, plain
// layout and data) that `fails` too, until none does, or `most` have been tried.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int most = 1000);

}  // namespace attnfuse::conformance
