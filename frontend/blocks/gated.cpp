// gated(by): the output times the sigmoid of a gate, which the layer computes beside queries: for every
// element, by = z[b, h, i, d] (Qwen3-Next), or for every head, by = z[b, h, i].
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::output};
constexpr Parameter kParameters[] = {
    {"by", ParameterKind::index, Presence::required, "the gate before its sigmoid, such as z[b, h, i, d]"},
};

Value expand(const BlockInput& input) {
  const Value decay = exp(-to_f32(input.arguments.value("by")));
  return input.x * (1.0 / (1.0 + decay));
}

}  // namespace

constinit const Block kGated{
    .name = "gated",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Multiplies the output by the sigmoid of a gate, for every element or every head.",
    .math = "x * sigmoid(by)",
    .latex = "x \\cdot \\sigma(z), \\quad \\sigma(z) = \\frac{1}{1 + e^{-z}}",
    .source = "Qiu et al., Gated Attention for Large Language Models (2025); Qwen3-Next",
    .expand = expand,
};

}  // namespace attnfuse
