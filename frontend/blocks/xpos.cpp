// xpos(gamma, scale_base, ...): makes scores decay with the distance, pair by pair: queries grow by
// zeta_p^(position / scale_base), keys shrink by the same, zeta_p = (2p/n + gamma) / (1 + gamma) (Sun et al.,
// "A Length-Extrapolatable Transformer", 2022). Stands beside rope with the same pairs. Elements are rounded
// to the program's dtype after it: an offset near the middle of the context keeps both factors moderate.
#include <cmath>

#include "frontend/blocks/rope.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query, Stage::key};
constexpr Parameter kParameters[] = {
    {.name = "gamma",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "how little the slowest decay is",
     .fallback = 0.4,
     .least = 0,
     .above_least = true},
    {.name = "scale_base",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "positions over which the first pair decays by zeta",
     .fallback = 512,
     .least = 0,
     .above_least = true},
    kPairsParameter,
    {.name = "dims",
     .kind = ParameterKind::integer,
     .presence = Presence::optional,
     .about = "elements that decay, from the first; even",
     .fallback_about = "the whole head",
     .least = 2,
     .most = 576},
    {.name = "position",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "the position of the row",
     .fallback_about = "j for keys, i + skv - sq for queries"},
    {.name = "offset",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "added to the position",
     .fallback_about = "0"},
};

Value expand(const BlockInput& input) {
  const std::optional<RotaryElements> elements = RotaryElements::read(input, false);
  if (!elements) return input.x;
  const double gamma = input.arguments.number("gamma");
  const Value d = input.index(Axis::d);
  const Value zeta = (elements->pair(d) * (1.0 / elements->pairs) + gamma) * (1 / (1 + gamma));
  const double direction = input.stage == Stage::query ? 1 : -1;
  const Value slope = log2(zeta) * (direction / input.arguments.number("scale_base"));
  const Value decayed = input.x * exp2(slope * row_position(input));
  return select(elements->turns(d), decayed, input.x);
}

}  // namespace

constinit const Block kXpos{
    .name = "xpos",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Scores that decay with the distance, pair by pair.",
    .math =
        "x * zeta^(position / scale_base) for queries, x * zeta^(-position / scale_base) for keys, "
        "zeta = (2p/dims + gamma) / (1 + gamma)",
    .latex = R"(x \, \zeta_p^{\pm \mathrm{pos} / s}, \quad \zeta_p = \frac{2p/n + \gamma}{1 + \gamma})",
    .source = "Sun et al., A Length-Extrapolatable Transformer (2022)",
    .expand = expand,
};

}  // namespace attnfuse
