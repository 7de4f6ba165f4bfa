// dense_bias(bias): x + bias[b, h, i, j]. Leading dimensions may be missing and any may be 1: the bias is
// then the same along them. AlphaFold's pair bias is [batch, heads, sq, skv]; a penalty of keys is [batch, 1,
// 1, skv].
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::score};
constexpr TensorAxis kAxes[] = {
    {"batch", Size::batch}, {"heads", Size::heads}, {"sq", Size::sq}, {"skv", Size::skv}};
constexpr Parameter kParameters[] = {
    {.name = "bias",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "what is added",
     .axes = kAxes},
};

Value expand(const BlockInput& input) {
  const Value b = input.index(Axis::b), h = input.index(Axis::h);
  const Value i = input.index(Axis::i), j = input.index(Axis::j);
  return input.x + input.element("bias", {b, h, i, j});
}

}  // namespace

constinit const Block kDenseBias{
    .name = "dense_bias",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Adds a tensor of scores, broadcast along what it lacks.",
    .math = "x + bias[b, h, i, j]",
    .latex = "x + B_{b, h, i, j}",
    .source = "Jumper et al., AlphaFold (2021); Graphormer (2021)",
    .expand = expand,
};

}  // namespace attnfuse
