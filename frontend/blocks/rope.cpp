// rope(theta, pairs, dims, scaling, position, offset): rotary position embedding (Su et al., "RoFormer",
// 2021). Elements of the head dim form pairs p = 0 .. n/2 - 1, each rotated by the angle position *
// theta^(-2p/n):
//
//   half         pairs d with d + n/2 (Llama, Mistral, Qwen, gpt-oss)
//   interleaved  pairs 2p with 2p + 1 (RoFormer, GPT-J, Llama-4, Cohere)
//
// n = dims, the whole head by default; elements past it stay (GPT-NeoX, Phi-2). The position is j for keys
// and values, i + skv - sq for queries, so that decoding equals prefill; `position` overrides it, `offset` is
// added to it. scaling = llama3 slows down the frequencies whose wavelength exceeds original_context /
// high_freq_factor, entirely (by `factor`) beyond original_context / low_freq_factor (Llama-3.1).
//
// Written with the partner y of an element, the rotation is x cos a + y sin a, where a is negative for the
// first element of a pair: the sign joins the frequency, an expression of d alone that compiles to one table.
#include <cmath>
#include <numbers>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query, Stage::key, Stage::value};
constexpr Choice kPairs[] = {{"half"}, {"interleaved"}};
constexpr Parameter kLlama3[] = {
    {.name = "factor",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "how much slow pairs slow down",
     .fallback = 8,
     .least = 1},
    {.name = "low_freq_factor",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "pairs with fewer turns than this over the original context slow down entirely",
     .fallback = 1,
     .least = 0,
     .above_least = true},
    {.name = "high_freq_factor",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "pairs with more turns than this over the original context stay",
     .fallback = 4,
     .least = 0,
     .above_least = true},
    {.name = "original_context",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "positions the model was first trained for",
     .fallback = 8192,
     .least = 1},
};
constexpr Choice kScalings[] = {{"none"}, {"llama3", kLlama3}};
constexpr Parameter kParameters[] = {
    {.name = "theta",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "base of the frequencies",
     .fallback = 10000,
     .least = 1,
     .above_least = true},
    {.name = "pairs",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "which elements turn together",
     .choices = kPairs},
    {.name = "dims",
     .kind = ParameterKind::integer,
     .presence = Presence::optional,
     .about = "elements that turn, from the first; even",
     .fallback_about = "the whole head",
     .least = 2,
     .most = 256},
    {.name = "scaling",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "how frequencies change for long contexts",
     .choices = kScalings},
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

// Turns over the original context decide; between the two factors the slowdown is interpolated.
Value llama3(const Value& frequency, const Arguments& scaling) {
  const double low = scaling.number("low_freq_factor"), high = scaling.number("high_freq_factor");
  const double factor = scaling.number("factor");
  const Value turns = frequency * (scaling.number("original_context") / (2 * std::numbers::pi));
  const Value kept = high > low ? clamp((turns - low) * (1 / (high - low)), 0.0, 1.0) : to_f32(turns >= low);
  const Value slowed = (1.0 - kept) * (1 / factor);
  return frequency * (kept + slowed);
}

// Negative for the first element of a pair.
Value signed_frequency(const BlockInput& input, RotaryPairs pairs, int dims) {
  const bool half = pairs == RotaryPairs::half;
  const Value d = input.index(Axis::d);
  const Value pair = half ? mod(d, dims / 2) : floor_div(d, 2);
  const Value frequency = exp2(pair * (-2 * std::log2(input.arguments.number("theta")) / dims));
  const Value scaled = input.arguments.choice("scaling") == 0
                           ? frequency
                           : llama3(frequency, input.arguments.nested("scaling"));
  const Value first = half ? d < dims / 2 : mod(d, 2) == 0;
  const Value sign = select(first, -1.0, 1.0);
  return scaled * sign;
}

Value position(const BlockInput& input) {
  Value result = input.arguments.has("position") ? input.arguments.value("position")
                 : input.stage == Stage::query   ? input.query_position()
                                                 : input.index(Axis::j);
  if (input.arguments.has("offset")) result = result + input.arguments.value("offset");
  return result;
}

Value expand(const BlockInput& input) {
  const int head =
      *input.emitter.graph.info().size(input.stage == Stage::value ? Size::v_head_dim : Size::head_dim);
  const int dims = input.arguments.has("dims") ? input.arguments.integer("dims") : head;
  const RotaryPairs pairs =
      input.arguments.choice("pairs") == 0 ? RotaryPairs::half : RotaryPairs::interleaved;
  const Value partner(
      input.emitter,
      input.emitter.graph.add(Partner{pairs, dims}, {input.x.node(input.emitter)}, input.emitter.where));
  const Value at = position(input);
  const Value frequency = signed_frequency(input, pairs, dims);
  const Value angle = at * frequency;
  const Value own = input.x * cos(angle);
  const Value other = partner * sin(angle);
  const Value turned = own + other;
  return dims >= head ? turned : select(input.index(Axis::d) < dims, turned, input.x);
}

}  // namespace

constinit const Block kRope{
    .name = "rope",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Rotary position embedding: turns pairs of elements by an angle that grows with the position.",
    .math = "(x, y) -> (x cos a - y sin a, y cos a + x sin a), a = position * theta^(-2p/dims)",
    .latex =
        "\\begin{pmatrix} \\cos a & -\\sin a \\\\ \\sin a & \\cos a \\end{pmatrix} \\begin{pmatrix} x \\\\ y "
        "\\end{pmatrix}, \\quad a = \\mathrm{pos} \\cdot \\theta^{-2p/n}",
    .source = "Su et al., RoFormer (2021); Llama-3.1 (llama3 scaling)",
    .expand = expand,
};

}  // namespace attnfuse
