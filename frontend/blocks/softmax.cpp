// softmax(sink): exp(x) over the allowed keys, divided by its sum. With a sink, exp(sink[h]) joins the sum:
// one learned logit for every head that takes weight and gives no value (gpt-oss; sink = 0 is
// softmax-plus-one, Miller, "Attention Is Off By One", 2023).
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::normalize};
constexpr Parameter kParameters[] = {
    {.name = "sink",
     .kind = ParameterKind::per_head,
     .presence = Presence::optional,
     .about = "a logit for every head that joins the sum",
     .fallback_about = "no sink"},
};

Value expand(const BlockInput& input) {
  Emitter& emitter = input.emitter;
  const NodeId scores = input.x.node(emitter), mask = input.mask.node(emitter);
  if (!input.arguments.has("sink"))
    return {emitter, emitter.graph.add(Normalize{NormalizeKind::softmax}, {scores, mask}, emitter.where)};
  const NodeId sink = input.arguments.value("sink").node(emitter);
  return {emitter,
          emitter.graph.add(Normalize{NormalizeKind::softmax_sink}, {scores, mask, sink}, emitter.where)};
}

}  // namespace

constinit const Block kSoftmax{
    .name = "softmax",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Weights that sum to one over the allowed keys, or to less with a sink.",
    .math = "exp(x) / (sum over allowed j of exp(x) [+ exp(sink[h])])",
    .latex = "\\frac{e^{x_j}}{\\sum_{j'} e^{x_{j'}} + e^{s_h}}",
    .source = "Vaswani et al. (2017); sink: gpt-oss, Miller, Attention Is Off By One (2023)",
    .expand = expand,
};

}  // namespace attnfuse
