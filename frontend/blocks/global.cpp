// global(tokens, align): the first `tokens` positions see every key, and every query sees them. Joined with a
// local mask: mask window(256, 256) || global(2) (Beltagy et al., "Longformer", 2020; Zaheer et al., "Big
// Bird", 2020). Attention sinks are the half of it that looks back: mask causal && (window(1024) || j < 4).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "tokens",
     .kind = ParameterKind::index,
     .presence = Presence::required,
     .about = "global positions: a number, or such as n[b]"},
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value tokens = input.arguments.value("tokens");
  const Value sees_all = aligned_query(input) < tokens;
  const Value is_seen = input.index(Axis::j) < tokens;
  return logical_or(sees_all, is_seen);
}

}  // namespace

constinit const Block kGlobal{
    .name = "global",
    .stages = kStages,
    .parameters = kParameters,
    .about = "The first positions see everything and are seen by everything.",
    .math = "p < tokens || j < tokens, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "p < n \\lor j < n",
    .source = "Beltagy et al., Longformer (2020); Zaheer et al., Big Bird (2020)",
    .expand = expand,
};

}  // namespace attnfuse
