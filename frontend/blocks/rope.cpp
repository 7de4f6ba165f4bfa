// rope(theta, pairs, dims, start, distance, denominator, scaling, axes, position, ...): rotary position
// embedding (Su et al., "RoFormer", 2021). Elements of the head dim form pairs p = 0 .. n/2 - 1, each rotated
// by the angle position * theta^(-2p/n):
//
//   half         pairs d with d + n/2 (Llama, Mistral, Qwen, gpt-oss)
//   interleaved  pairs 2p with 2p + 1 (RoFormer, GPT-J, Llama-4, Cohere)
//
// n = dims, the whole head by default; elements past it stay (GPT-NeoX, Phi-2). `start` moves interleaved
// pairs (DeepSeek turns the last 64 of 192), `distance` sets the elements of half pairs further apart and
// `denominator` divides p in place of n (Gemma-4 pairs d with d + 256 and turns some of the pairs). The
// position is j for keys and values, i + skv - sq for queries, so that decoding equals prefill; `position`
// overrides it, `offset` is added to it. rope_scaling.cpp has what models do for long contexts, rope_axes.cpp
// several position axes.
//
// Written with the partner y of an element, the rotation is x cos a + y sin a, where a is negative for the
// first element of a pair: the sign joins the frequency, an expression of d alone that compiles to one table.
#include "frontend/blocks/rope.h"

#include <cmath>

#include <fmt/format.h>

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query, Stage::key, Stage::value};
constexpr Stage kInverseStages[] = {Stage::output};

constexpr Parameter position_parameter(std::string_view name, std::string_view fallback) {
  return {.name = name,
          .kind = ParameterKind::index,
          .presence = Presence::optional,
          .about = "the position of the row on this axis",
          .fallback_about = fallback};
}

const Parameter kParameters[] = {
    {.name = "theta",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "base of the frequencies",
     .fallback = 10000,
     .least = 1,
     .above_least = true},
    kPairsParameter,
    {.name = "dims",
     .kind = ParameterKind::integer,
     .presence = Presence::optional,
     .about = "elements that turn, from `start`; even",
     .fallback_about = "the whole head",
     .least = 2,
     .most = 576},
    {.name = "scaling",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "how frequencies change for long contexts",
     .choices = rope_scalings()},
    {.name = "position",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "the position of the row, on the first axis",
     .fallback_about = "j for keys, i + skv - sq for queries and outputs"},
    {.name = "offset",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "added to the position, on the first axis",
     .fallback_about = "0"},
    {.name = "start",
     .kind = ParameterKind::integer,
     .presence = Presence::defaulted,
     .about = "the first element that turns, of interleaved pairs; even",
     .fallback = 0,
     .least = 0,
     .most = 574},
    {.name = "distance",
     .kind = ParameterKind::integer,
     .presence = Presence::optional,
     .about = "between the elements of a half pair",
     .fallback_about = "dims / 2",
     .least = 1,
     .most = 288},
    {.name = "denominator",
     .kind = ParameterKind::number,
     .presence = Presence::optional,
     .about = "n of theta^(-2p/n)",
     .fallback_about = "dims; of axial axes, theirs",
     .least = 1},
    {.name = "axes",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "which pairs turn by which position; sections count pairs",
     .choices = rope_axes()},
    position_parameter("position_2", "as the first axis"),
    position_parameter("position_3", "as the first axis"),
    position_parameter("position_4", "as the first axis"),
};

// theta^(-2p/n): of an axial axis, p and n are those of the axis.
Value base_frequency(const BlockInput& input, const PairAxes& axes, const Value& pair, double n) {
  const double log_theta = std::log2(input.arguments.number("theta"));
  const bool has_own = input.arguments.has("denominator");
  if (axes.layout != PairAxes::Layout::axial || axes.sections.empty())
    return exp2(pair * (-2 * log_theta / n));
  std::vector<Value> exponents;
  int first = 0;
  for (int pairs : axes.sections) {
    exponents.push_back((pair - first) * (-2 * log_theta / (has_own ? n : 2.0 * pairs)));
    first += pairs;
  }
  return exp2(axes.choose(pair, exponents));
}

Value position_of(const BlockInput& input, const PairAxes& axes, const Value& pair) {
  std::vector<Value> positions{row_position(input)};
  for (std::size_t axis = 1; axis < axes.sections.size(); ++axis) {
    const std::string name = fmt::format("position_{}", axis + 1);
    positions.push_back(input.arguments.has(name) ? input.arguments.value(name) : positions.front());
  }
  return axes.choose(pair, positions);
}

// direction: 1 turns, -1 turns back.
Value turned(const BlockInput& input, double direction) {
  const std::optional<RotaryElements> elements = RotaryElements::read(input, true);
  const std::optional<PairAxes> axes = elements ? PairAxes::read(input, elements->pairs) : std::nullopt;
  if (!axes) return input.x;
  const int reach =
      elements->style == RotaryPairs::half ? 2 * elements->distance : elements->start + 2 * elements->pairs;
  const NodeId x = input.x.node(input.emitter);
  const Value partner(input.emitter,
                      input.emitter.graph.add(Partner{elements->style, reach}, {x}, input.emitter.where));
  const Value d = input.index(Axis::d);
  const Value pair = elements->pair(d);
  const Value at = position_of(input, *axes, pair);
  const double n =
      input.arguments.has("denominator") ? input.arguments.number("denominator") : 2.0 * elements->pairs;
  const Value plain = base_frequency(input, *axes, pair, n);
  const Frequency frequency = scaled_frequency(input, plain, pair, input.arguments.number("theta"), n);
  const Value sign = select(elements->is_first(d), -direction, direction);
  const Value angle = at * (frequency.turn * sign);
  const Value own = input.x * cos(angle);
  const Value other = partner * sin(angle);
  const Value sum = own + other;
  const double factor = direction > 0 ? frequency.factor : 1 / frequency.factor;
  const Value result = factor == 1 ? sum : sum * factor;
  return select(elements->turns(d), result, input.x);
}

Value expand(const BlockInput& input) { return turned(input, 1); }
Value expand_inverse(const BlockInput& input) { return turned(input, -1); }

}  // namespace

std::optional<RotaryElements> RotaryElements::read(const BlockInput& input, bool has_start_and_distance) {
  const Arguments& arguments = input.arguments;
  const bool is_value = input.stage == Stage::value;
  const int head = *input.emitter.graph.info().size(
      is_value || input.stage == Stage::output ? Size::v_head_dim : Size::head_dim);
  RotaryElements result{};
  result.head_dim = head;
  result.style = arguments.choice("pairs") == 0 ? RotaryPairs::half : RotaryPairs::interleaved;
  result.start = has_start_and_distance ? arguments.integer("start") : 0;
  const int dims = arguments.has("dims") ? arguments.integer("dims") : head - result.start;
  result.pairs = dims / 2;
  result.distance =
      has_start_and_distance && arguments.has("distance") ? arguments.integer("distance") : result.pairs;
  const bool half = result.style == RotaryPairs::half;
  if (dims % 2 != 0 || result.start % 2 != 0 || dims < 2 || result.start + dims > head) {
    const bool odd = dims % 2 != 0 || result.start % 2 != 0;
    input.mistake(
        "rope.count",
        result.start == 0
            ? fmt::format("{} elements are paired; it must be an even number between 2 and {}", dims, head)
            : fmt::format("elements {} up to {} are paired; they must lie inside the {} of the "
                          "head{}",
                          result.start, result.start + dims, head, odd ? ", and both numbers be even" : ""),
        "rotate a part of the head dim that has whole pairs");
    return {};
  }
  if (half && result.start != 0) {
    input.mistake("rope.start", fmt::format("half pairs start at element 0, not at {}", result.start),
                  "use pairs = interleaved, or put the elements that turn first");
    return {};
  }
  if (half && (result.distance < result.pairs || 2 * result.distance > head)) {
    input.mistake("rope.distance",
                  fmt::format("distance is {}; for {} pairs in a head of {} it must lie between {} and {}",
                              result.distance, result.pairs, head, result.pairs, head / 2));
    return {};
  }
  return result;
}

Value RotaryElements::pair(const Value& d) const {
  return style == RotaryPairs::half ? mod(d, distance) : floor_div(start == 0 ? d : d - start, 2);
}

Value RotaryElements::is_first(const Value& d) const {
  return style == RotaryPairs::half ? d < distance : mod(d, 2) == 0;
}

Value RotaryElements::turns(const Value& d) const {
  const Value yes = Value::constant(1, ValueType::boolean);
  if (style == RotaryPairs::half) {
    const Value inside = 2 * distance >= head_dim ? yes : d < 2 * distance;
    if (pairs == distance) return inside;
    const Value by_pair = pair(d) < pairs;
    return inside.is_constant() ? by_pair : logical_and(inside, by_pair);
  }
  const Value ends = start + 2 * pairs >= head_dim ? yes : d < start + 2 * pairs;
  if (start == 0) return ends;
  const Value starts = d >= start;
  return ends.is_constant() ? starts : logical_and(starts, ends);
}

Value row_position(const BlockInput& input) {
  Value result = input.arguments.has("position") ? input.arguments.value("position")
                 : input.stage == Stage::query || input.stage == Stage::output ? input.query_position()
                                                                               : input.index(Axis::j);
  if (input.arguments.has("offset")) result = result + input.arguments.value("offset");
  return result;
}

constinit const Block kRope{
    .name = "rope",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Rotary position embedding: turns pairs of elements by an angle that grows with the position.",
    .math = "(x, y) -> (x cos a - y sin a, y cos a + x sin a), a = position * theta^(-2p/dims)",
    .latex =
        "\\begin{pmatrix} \\cos a & -\\sin a \\\\ \\sin a & \\cos a \\end{pmatrix} \\begin{pmatrix} x \\\\ y "
        "\\end{pmatrix}, \\quad a = \\mathrm{pos} \\cdot \\theta^{-2p/n}",
    .source = "Su et al., RoFormer (2021); scalings: YaRN (2023), LongRoPE (2024), Llama-3.1; axes: Qwen2-VL",
    .expand = expand,
};

constinit const Block kInverseRope{
    .name = "inverse_rope",
    .stages = kInverseStages,
    .parameters = kParameters,
    .about = "Turns the output back by the query's position, where keys that were turned serve as values.",
    .math = "(x, y) -> (x cos a + y sin a, y cos a - x sin a), a = position * theta^(-2p/dims)",
    .latex =
        "\\begin{pmatrix} \\cos a & \\sin a \\\\ -\\sin a & \\cos a \\end{pmatrix} \\begin{pmatrix} x \\\\ y "
        "\\end{pmatrix}, \\quad a = \\mathrm{pos} \\cdot \\theta^{-2p/n}",
    .source = "DeepSeek-V4; rotations as in Su et al., RoFormer (2021)",
    .expand = expand_inverse,
};

}  // namespace attnfuse
