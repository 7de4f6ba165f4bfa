// scale(c): x * c. Usually 1 / sqrt(head_dim), so that scores of random vectors have unit variance (Vaswani
// et al., "Attention Is All You Need", 2017); Gemma-2 divides by sqrt(query_pre_attn_scalar), T5 does not
// scale. On the output, Differential Transformer multiplies by 1 - lambda_init.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::score, Stage::output};
constexpr Parameter kParameters[] = {
    {"c", ParameterKind::number, Presence::required, "the factor, such as 1 / sqrt(head_dim)"},
};

Value expand(const BlockInput& input) { return input.x * input.arguments.value("c"); }

}  // namespace

constinit const Block kScale{
    .name = "scale",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Multiplies the score, or the output, by a constant.",
    .math = "x * c",
    .latex = "x \\cdot c",
    .source = "Vaswani et al., Attention Is All You Need (2017)",
    .expand = expand,
};

}  // namespace attnfuse
