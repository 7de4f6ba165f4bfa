// window(left, right, align): keys at distances -right <= p - j < left from the query's position p. window(W)
// looks back alone and sees W keys, the query's own included (Mistral, Gemma-2, gpt-oss); with right = R also
// R keys ahead (Beltagy et al., "Longformer", 2020).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "left",
     .kind = ParameterKind::integer,
     .presence = Presence::required,
     .about = "keys seen at and before the query",
     .least = 1,
     .most = kMostKeys},
    {.name = "right",
     .kind = ParameterKind::integer,
     .presence = Presence::defaulted,
     .about = "keys seen after the query",
     .fallback = 0,
     .least = 0,
     .most = kMostKeys},
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value position = aligned_query(input);
  const Value distance = position - input.index(Axis::j);
  const Value behind = distance < input.arguments.value("left");
  const Value ahead = distance >= -input.arguments.integer("right");
  return logical_and(ahead, behind);
}

}  // namespace

constinit const Block kWindow{
    .name = "window",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys near the query.",
    .math = "-right <= p - j && p - j < left, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "-R \\le p - j < L, \\quad p = i + S_{kv} - S_q",
    .source = "Beltagy et al., Longformer (2020); Mistral, Gemma-2, gpt-oss",
    .expand = expand,
};

}  // namespace attnfuse
