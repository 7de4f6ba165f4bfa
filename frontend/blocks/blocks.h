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

// How queries and keys line up when their numbers differ: the masks' parameter `align`.
inline constexpr Choice kAlignments[] = {{"bottom_right"}, {"top_left"}};
// causal.cpp: the position of query i among the keys, by that argument.
Value aligned_query(const BlockInput& input);

}  // namespace attnfuse
