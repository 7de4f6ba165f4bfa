// chunk(size, align): keys of the query's own chunk of `size` positions, p // size == j // size. Llama-4
// keeps chunks of 8192 in its rotary layers, with causal: mask causal && chunk(8192).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "size",
     .kind = ParameterKind::integer,
     .presence = Presence::required,
     .about = "positions of a chunk",
     .least = 1,
     .most = kMostKeys},
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value size = input.arguments.value("size");
  const Value own = floor_div(aligned_query(input), size);
  const Value other = floor_div(input.index(Axis::j), size);
  return own == other;
}

}  // namespace

constinit const Block kChunk{
    .name = "chunk",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys in the same chunk of positions as the query.",
    .math = "p // size == j // size, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = R"(\lfloor p / n \rfloor = \lfloor j / n \rfloor)",
    .source = "Llama-4 (chunks of 8192, causal)",
    .expand = expand,
};

}  // namespace attnfuse
