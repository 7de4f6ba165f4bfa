// causal(align): keys at or before the query, j <= p. The last query stands at the last key (bottom_right,
// p = i + skv - sq), so that decoding with a cache equals the full pass; top_left takes p = i.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value position = aligned_query(input);
  return input.index(Axis::j) <= position;
}

}  // namespace

Value aligned_query(const BlockInput& input) {
  return input.arguments.choice("align") == 0 ? input.query_position() : input.index(Axis::i);
}

constinit const Block kCausal{
    .name = "causal",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys at or before the query.",
    .math = "j <= p, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "j \\le p, \\quad p = i + S_{kv} - S_q",
    .source = "Vaswani et al., Attention Is All You Need (2017)",
    .expand = expand,
};

}  // namespace attnfuse
