// Normalizers that need no sum over the keys, or only its size: weights are functions of their own score.
//
//   sigmoid(bias)     1 / (1 + exp(-(x + bias))), bias = -ln(skv) (Ramapuram et al., "Sigmoid attention",
//   2024) relu(scale, ...)  max(x, 0) * scale, or its square, scale = 1 / skv (Wortsman et al., 2023; Primer,
//   2021) silu(scale)       x / (1 + exp(-x)) * scale, scale = 1 / skv (Zhai et al., "HSTU", 2024) retention
//   x / max(|sum over allowed j of x|, 1) (Sun et al., "RetNet", 2023), after decay none              x
//   (linear attention's quadratic form)
//
// lse is the logarithm of what a row is divided by: 0, for all but retention.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::normalize};
constexpr Parameter kScale{.name = "scale",
                           .kind = ParameterKind::index,
                           .presence = Presence::optional,
                           .about = "factor of the weights",
                           .fallback_about = "1 / skv"};
constexpr Parameter kSigmoidParameters[] = {
    {.name = "bias",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "added to the score",
     .fallback_about = "-ln(skv)"},
};
constexpr Choice kSquared[] = {{"no"}, {"yes"}};
constexpr Parameter kReluParameters[] = {
    kScale,
    {.name = "squared",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "whether max(x, 0) is squared, before the scale",
     .choices = kSquared},
};
constexpr Parameter kSiluParameters[] = {kScale};

Value normalized(const BlockInput& input, const Value& weights, NormalizeKind kind) {
  Emitter& emitter = input.emitter;
  const NodeId scores = to_f32(weights).node(emitter), mask = input.mask.node(emitter);
  return {emitter, emitter.graph.add(Normalize{kind}, {scores, mask}, emitter.where)};
}

Value logistic(const Value& x) { return 1.0 / (1.0 + exp(-x)); }

Value scale(const BlockInput& input) {
  return input.arguments.has("scale") ? input.arguments.value("scale") : 1.0 / to_f32(input.size(Size::skv));
}

Value expand_sigmoid(const BlockInput& input) {
  const Value bias =
      input.arguments.has("bias") ? input.arguments.value("bias") : -log(to_f32(input.size(Size::skv)));
  return normalized(input, logistic(input.x + bias), NormalizeKind::none);
}

Value expand_relu(const BlockInput& input) {
  const Value positive = max(input.x, 0.0);
  const Value weight = input.arguments.choice("squared") == 1 ? positive * positive : positive;
  return normalized(input, weight * scale(input), NormalizeKind::none);
}

Value expand_silu(const BlockInput& input) {
  const Value weight = input.x * logistic(input.x);
  return normalized(input, weight * scale(input), NormalizeKind::none);
}

Value expand_retention(const BlockInput& input) {
  return normalized(input, input.x, NormalizeKind::retention);
}

Value expand_none(const BlockInput& input) { return normalized(input, input.x, NormalizeKind::none); }

}  // namespace

constinit const Block kSigmoid{
    .name = "sigmoid",
    .stages = kStages,
    .parameters = kSigmoidParameters,
    .about = "Weights between 0 and 1, each for itself.",
    .math = "1 / (1 + exp(-(x + bias)))",
    .latex = "\\frac{1}{1 + e^{-(x + b)}}",
    .source = "Ramapuram et al., Theory, Analysis, and Best Practices for Sigmoid Self-Attention (2024)",
    .expand = expand_sigmoid,
};

constinit const Block kRelu{
    .name = "relu",
    .stages = kStages,
    .parameters = kReluParameters,
    .about = "Positive scores as weights, or their squares.",
    .math = "max(x, 0) * scale, or max(x, 0)^2 * scale",
    .latex = "c \\max(x, 0)^{1 \\text{ or } 2}",
    .source = "Wortsman et al., Replacing softmax with ReLU (2023); Primer (2021)",
    .expand = expand_relu,
};

constinit const Block kSilu{
    .name = "silu",
    .stages = kStages,
    .parameters = kSiluParameters,
    .about = "Scores weighted by their own sigmoid.",
    .math = "x / (1 + exp(-x)) * scale",
    .latex = "\\frac{c \\, x}{1 + e^{-x}}",
    .source = "Zhai et al., HSTU (2024)",
    .expand = expand_silu,
};

constinit const Block kRetention{
    .name = "retention",
    .stages = kStages,
    .parameters = {},
    .about = "Scores divided by the size of their sum, where it exceeds one.",
    .math = "x / max(|sum over allowed j of x|, 1)",
    .latex = R"(\frac{x_j}{\max(\lvert \sum_{j'} x_{j'} \rvert, 1)})",
    .source = "Sun et al., RetNet (2023)",
    .expand = expand_retention,
};

constinit const Block kNone{
    .name = "none",
    .stages = kStages,
    .parameters = {},
    .about = "Scores as weights.",
    .math = "x",
    .latex = "x",
    .source = "linear attention, in its quadratic form",
    .expand = expand_none,
};

}  // namespace attnfuse
