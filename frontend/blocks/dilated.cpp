// dilated(step, align): keys at distances that are multiples of `step`. With window it is the dilated window:
// mask window(512) && dilated(2) (Child et al., "Sparse Transformers", 2019; Longformer).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::mask};
constexpr Parameter kParameters[] = {
    {.name = "step",
     .kind = ParameterKind::integer,
     .presence = Presence::required,
     .about = "distance between keys that are seen",
     .least = 1,
     .most = kMostKeys},
    kAlignParameter,
};

Value expand(const BlockInput& input) {
  const Value distance = aligned_query(input) - input.index(Axis::j);
  return mod(distance, input.arguments.value("step")) == 0;
}

}  // namespace

constinit const Block kDilated{
    .name = "dilated",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Every key that lies whole steps from the query.",
    .math = "(p - j) % step == 0, p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "(p - j) \\bmod n = 0",
    .source = "Child et al., Sparse Transformers (2019); Longformer",
    .expand = expand,
};

}  // namespace attnfuse
