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
extern const Block kChunk;
extern const Block kPrefix;
extern const Block kDocument;
extern const Block kPacked;
extern const Block kLength;
extern const Block kGlobal;
extern const Block kDilated;
extern const Block kBlockMask;
extern const Block kBlockList;
extern const Block kTree;
extern const Block kTreePath;
extern const Block kXpos;
extern const Block kNorm;
extern const Block kClip;
extern const Block kScaleByPosition;
extern const Block kRelativeBias;
extern const Block kDenseBias;
extern const Block kDecay;
extern const Block kSoftmax;
extern const Block kSoftmaxPlusOne;
extern const Block kSigmoid;
extern const Block kRelu;
extern const Block kSilu;
extern const Block kRetention;
extern const Block kNone;
extern const Block kDropout;
extern const Block kDifferential;
extern const Block kGated;
extern const Block kInverseRope;
extern const Block kMaxLogit;

inline constexpr double kMostKeys = 1 << 30;

// How queries and keys line up when their numbers differ: the masks' parameter `align`.
inline constexpr Choice kAlignments[] = {{"bottom_right"}, {"top_left"}};
inline constexpr Parameter kAlignParameter{
    .name = "align",
    .kind = ParameterKind::choice,
    .presence = Presence::defaulted,
    .about = "which query stands at which key: last at last, or first at first",
    .choices = kAlignments};
// Sizes of the blocks that masks by blocks speak of.
inline constexpr Parameter kQueryBlockParameter{.name = "query_block",
                                                .kind = ParameterKind::integer,
                                                .presence = Presence::required,
                                                .about = "queries of a block",
                                                .least = 1,
                                                .most = kMostKeys};
inline constexpr Parameter kKeyBlockParameter{.name = "key_block",
                                              .kind = ParameterKind::integer,
                                              .presence = Presence::required,
                                              .about = "keys of a block",
                                              .least = 1,
                                              .most = kMostKeys};
// causal.cpp: the position of query i among the keys, by that argument.
Value aligned_query(const BlockInput& input);

}  // namespace attnfuse
