// decay(gamma, align): x * gamma[h]^|p - j|: keys count less the farther they lie. Retention (Sun et al.,
// "RetNet", 2023) without a softmax after it; its gamma is the default, 1 - 2^(-5 - h).
#include <numbers>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::score};
constexpr Parameter kParameters[] = {
    {.name = "gamma",
     .kind = ParameterKind::per_head,
     .presence = Presence::optional,
     .about = "factor of one step for every head, greater than 0",
     .fallback_about = "RetNet's, 1 - 2^(-5 - h)"},
    kAlignParameter,
};

// log2(1 - e) for e up to 1/32 by its series: near 1 a machine's logarithm has few digits.
Value log2_of_one_minus(const Value& e) {
  const Value sum = 1.0 + e * (1.0 / 2 + e * (1.0 / 3 + e * (1.0 / 4 + e * (1.0 / 5 + e * (1.0 / 6)))));
  return e * sum * -std::numbers::log2e;
}

Value expand(const BlockInput& input) {
  const Value slope = input.arguments.has("gamma")
                          ? log2(input.arguments.value("gamma"))
                          : log2_of_one_minus(exp2(-5.0 - to_f32(input.index(Axis::h))));
  const Value position = aligned_query(input);
  const Value distance = abs(position - input.index(Axis::j));
  return input.x * exp2(slope * distance);
}

}  // namespace

constinit const Block kDecay{
    .name = "decay",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Multiplies the score by a power of the distance.",
    .math = "x * gamma[h]^|p - j|, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "x \\, \\gamma_h^{|p - j|}",
    .source = "Sun et al., RetNet (2023)",
    .expand = expand,
};

}  // namespace attnfuse
