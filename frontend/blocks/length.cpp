// length(keys): the first `keys` keys, usually one number for every batch entry: mask length(n[b]). A loop
// bound: tiles past it are not visited, and what stands there is never read into a result.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "keys",
     .kind = ParameterKind::index,
     .presence = Presence::required,
     .about = "keys that are there: a number, or such as n[b]"},
};

Value expand(const BlockInput& input) { return input.index(Axis::j) < input.arguments.value("keys"); }

}  // namespace

constinit const Block kLength{
    .name = "length",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Keys up to a length, which may differ by batch entry.",
    .math = "j < keys",
    .latex = "j < n_b",
    .source = "padded batches; seqused_k of FlashAttention",
    .expand = expand,
};

}  // namespace attnfuse
