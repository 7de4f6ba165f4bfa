// One row per building block, each defined in the file of its name. Only catalog.cpp reads them.
#pragma once

#include "frontend/catalog.h"

namespace attnfuse {

extern const Block kRope;
extern const Block kScale;
extern const Block kSoftcap;
extern const Block kAlibi;
extern const Block kCausal;
extern const Block kWindow;
extern const Block kSoftmax;

// causal.cpp: how queries and keys line up when their numbers differ; shared by the masks.
extern const std::span<const Choice> kAlignments;
// The position of query i among the keys, by the argument `align`.
Value aligned_query(const BlockInput& input);

}  // namespace attnfuse
