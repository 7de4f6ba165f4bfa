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

Value with_sink(const BlockInput& input, const Value& sink) {
  Emitter& emitter = input.emitter;
  const NodeId scores = input.x.node(emitter), mask = input.mask.node(emitter), node = sink.node(emitter);
  return {emitter,
          emitter.graph.add(Normalize{NormalizeKind::softmax_sink}, {scores, mask, node}, emitter.where)};
}

Value expand_plus_one(const BlockInput& input) { return with_sink(input, 0.0); }

Value expand(const BlockInput& input) {
  if (input.arguments.has("sink")) return with_sink(input, input.arguments.value("sink"));
  Emitter& emitter = input.emitter;
  const NodeId scores = input.x.node(emitter), mask = input.mask.node(emitter);
  return {emitter, emitter.graph.add(Normalize{NormalizeKind::softmax}, {scores, mask}, emitter.where)};
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

constinit const Block kSoftmaxPlusOne{
    .name = "softmax_plus_one",
    .stages = kStages,
    .parameters = {},
    .about = "Weights that may sum to less than one: a sink of 0.",
    .math = "exp(x) / (1 + sum over allowed j of exp(x))",
    .latex = "\\frac{e^{x_j}}{1 + \\sum_{j'} e^{x_{j'}}}",
    .source = "Miller, Attention Is Off By One (2023)",
    .expand = expand_plus_one,
};

}  // namespace attnfuse
