// prefix(length, align): every query sees the first `length` keys, and beyond them the keys at or before
// itself (prefix language models: Raffel et al., "T5", 2020; PaliGemma's image tokens).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "length",
     .kind = ParameterKind::index,
     .presence = Presence::required,
     .about = "keys of the prefix: a number, or such as n[b]"},
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value position = aligned_query(input);
  const Value j = input.index(Axis::j);
  const Value inside = j < input.arguments.value("length");
  const Value before = j <= position;
  return logical_or(inside, before);
}

}  // namespace

constinit const Block kPrefix{
    .name = "prefix",
    .stages = kStages,
    .parameters = kParameters,
    .about = "The first keys for every query; beyond them, keys at or before the query.",
    .math = "j < length || j <= p, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "j < n \\lor j \\le p",
    .source = "Raffel et al., T5 (2020); PaliGemma",
    .expand = expand,
};

}  // namespace attnfuse
