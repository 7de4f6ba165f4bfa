// alibi(slopes, distance): x - slopes[h] * (p - j), where p = i + skv - sq is the query's position: attention
// with linear biases (Press et al., "Train Short, Test Long", 2022; MPT, BLOOM, Falcon-RW). distance =
// absolute takes |p - j|, for programs that are not causal (Jina). Without slopes they are the paper's: 2^(-8
// (h + 1) / n) for the first n heads, n the largest power of two that is at most heads; the rest take every
// second slope of 2n heads.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::score};
constexpr Choice kDistances[] = {{"signed"}, {"absolute"}};
constexpr Parameter kParameters[] = {
    {.name = "slopes",
     .kind = ParameterKind::per_head,
     .presence = Presence::optional,
     .about = "one slope for every head",
     .fallback_about = "the paper's, 2^(-8 (h + 1) / heads) when heads is a power of two"},
    {.name = "distance",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "p - j, or its absolute value",
     .choices = kDistances},
};

Value paper_slopes(const BlockInput& input) {
  const int heads = input.emitter.graph.info().heads;
  int n = 1;
  while (n * 2 <= heads) n *= 2;
  const Value h = input.index(Axis::h);
  const Value first = (h + 1) * (-8.0 / n);
  if (n == heads) return exp2(first);
  const Value rest = ((h - n) * 2 + 1) * (-4.0 / n);
  const Value is_first = h < n;
  return exp2(select(is_first, first, rest));
}

Value expand(const BlockInput& input) {
  const Value slopes = input.arguments.has("slopes") ? input.arguments.value("slopes") : paper_slopes(input);
  const Value position = input.query_position();
  const Value distance = position - input.index(Axis::j);
  return input.x - slopes * (input.arguments.choice("distance") == 0 ? distance : abs(distance));
}

}  // namespace

constinit const Block kAlibi{
    .name = "alibi",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Attention with linear biases: keys count less the farther back they lie.",
    .math = "x - slopes[h] * (p - j), p = i + skv - sq",
    .latex = "x - m_h \\, (p - j), \\quad p = i + S_{kv} - S_q",
    .source = "Press et al., Train Short, Test Long (2022); MPT, BLOOM, Falcon-RW",
    .expand = expand,
};

}  // namespace attnfuse
