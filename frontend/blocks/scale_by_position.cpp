// scale_by_position(length, kind, position): queries that grow with their position t, so that long contexts
// do not flatten the weights:
//
//   steps   x * (1 + scale * ln(1 + floor((t + 1) / length))) (Llama-4's layers without rope: 8192, 0.1)
//   log_n   x * max(1, ln(t + 1) / ln(length)) (Su Jianlin, 2021; Qwen)
#include <cmath>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query};
constexpr Parameter kSteps[] = {
    {.name = "scale",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "how much a step adds",
     .fallback = 0.1},
};
constexpr Choice kKinds[] = {{"steps", kSteps}, {"log_n"}};
constexpr Parameter kParameters[] = {
    {.name = "length",
     .kind = ParameterKind::integer,
     .presence = Presence::required,
     .about = "positions of a step; the length from which on queries grow",
     .least = 2,
     .most = kMostKeys},
    {.name = "kind",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "how queries grow",
     .choices = kKinds},
    {.name = "position",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "the position of the row",
     .fallback_about = "i + skv - sq"},
};

Value expand(const BlockInput& input) {
  const Value position =
      input.arguments.has("position") ? input.arguments.value("position") : input.query_position();
  const int length = input.arguments.integer("length");
  const Value number = position + 1;
  if (input.arguments.choice("kind") == 1) {
    const Value growth = log(max(to_f32(number), 1.0)) * (1 / std::log(length));
    return input.x * max(growth, 1.0);
  }
  const Value step =
      position.type() == ValueType::i32 ? to_f32(floor_div(number, length)) : floor(number / double(length));
  const Value grown = log(1.0 + max(step, 0.0)) * input.arguments.nested("kind").number("scale");
  return input.x * (1.0 + grown);
}

}  // namespace

constinit const Block kScaleByPosition{
    .name = "scale_by_position",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Queries that grow with their position.",
    .math =
        "x * (1 + scale * ln(1 + (t + 1) // length)) or x * max(1, ln(t + 1) / ln(length)), t = i + skv - sq",
    .latex =
        "x \\, (1 + a \\ln(1 + \\lfloor (t + 1) / L \\rfloor)) \\quad \\text{or} \\quad x \\max(1, "
        "\\ln(t + 1) / \\ln L)",
    .source = "Llama-4 (steps), Qwen (log_n)",
    .expand = expand,
};

}  // namespace attnfuse
