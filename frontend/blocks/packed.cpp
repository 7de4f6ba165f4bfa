// packed(offsets): keys of the query's own sequence where sequences lie one after the other: sequence n takes
// positions offsets[n] up to offsets[n + 1] (the cu_seqlens of FlashAttention, rising, from 0). A position's
// sequence is found by halving, so that many sequences cost little.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr TensorAxis kAxes[] = {{"offsets", {}, true}};
constexpr Parameter kParameters[] = {
    {.name = "offsets",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "where sequences start, and after the last one the end",
     .axes = kAxes,
     .type = ValueType::i32},
};

// The last n with offsets[n] <= position; 0 before all.
Value sequence_of(const BlockInput& input, const Value& position) {
  const int count = input.extent("offsets", 0);
  std::int64_t step = 1;
  while (step * 2 < count) step *= 2;
  Value found = 0;
  for (; step > 0; step /= 2) {
    const Value next = found + int(step);
    const Value starts = input.element("offsets", {next}) <= position;
    const Value exists = next < count;
    found = select(logical_and(exists, starts), next, found);
  }
  return found;
}

Value expand(const BlockInput& input) {
  const Value own = sequence_of(input, input.query_position());
  const Value other = sequence_of(input, input.index(Axis::j));
  return own == other;
}

}  // namespace

constinit const Block kPacked{
    .name = "packed",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys of the query's own sequence, where sequences lie one after the other.",
    .math = "s(p) == s(j), s(t) = the last n with offsets[n] <= t, p = i + skv - sq",
    .latex = R"(s(p) = s(j), \quad s(t) = \max \{ n : c_n \le t \})",
    .source = "cu_seqlens of FlashAttention",
    .expand = expand,
};

}  // namespace attnfuse
