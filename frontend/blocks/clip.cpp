// clip(c): clamp(x, -c, c), for queries, keys or values of models whose projections grow (OLMo, MPT and DBRX:
// clip_qkv).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query, Stage::key, Stage::value, Stage::output};
constexpr Parameter kParameters[] = {
    {.name = "c",
     .kind = ParameterKind::number,
     .presence = Presence::required,
     .about = "the bound",
     .least = 0,
     .above_least = true},
};

Value expand(const BlockInput& input) {
  const double c = input.arguments.number("c");
  return clamp(input.x, -c, c);
}

}  // namespace

constinit const Block kClip{
    .name = "clip",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Cuts elements to [-c, c].",
    .math = "clamp(x, -c, c)",
    .latex = "\\min(\\max(x, -c), c)",
    .source = "OLMo, MPT, DBRX (clip_qkv)",
    .expand = expand,
};

}  // namespace attnfuse
