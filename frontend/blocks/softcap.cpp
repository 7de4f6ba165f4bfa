// softcap(c): c * tanh(x / c). Bounds the score smoothly to (-c, c); acts before the mask. Gemma-2 uses c =
// 50, Grok-1 c = 30 (Bello et al., "Neural Combinatorial Optimization", 2016, clip logits so).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::score};
constexpr Parameter kParameters[] = {
    {.name = "c",
     .kind = ParameterKind::number,
     .presence = Presence::required,
     .about = "the bound",
     .least = 0,
     .above_least = true},
};

// A product with 1 / c, a constant: division costs many instructions.
Value expand(const BlockInput& input) {
  const Value c = input.arguments.value("c");
  return c * tanh(input.x * (1 / c));
}

}  // namespace

constinit const Block kSoftcap{
    .name = "softcap",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Bounds the score smoothly to (-c, c), before the mask.",
    .math = "c * tanh(x / c)",
    .latex = "c \\tanh(x / c)",
    .source = "Gemma-2 (c = 50), Grok-1 (c = 30)",
    .expand = expand,
};

}  // namespace attnfuse
