// norm(kind, weight, bias, eps, unit_offset, inverse): rows of one head brought to one size, of queries, keys
// and values before or after rope as its line stands, of outputs for Differential Transformer and RetNet:
//
//   rms    x / sqrt(mean of x^2 + eps) (Qwen3, Gemma-3; Llama-4 after rope, without weight)
//   layer  (x - mean) / sqrt(variance + eps) (Cohere, ViT-22B)
//   l2     x / sqrt(sum of x^2 + eps) (nGPT; cosine attention)
//
// then * weight, or * (1 + weight) with unit_offset (Gemma, Qwen3-Next), + bias. A norm over all heads
// together (OLMo-2) has a mean that no head knows: `inverse` gives 1 / sqrt(...) of the row, such as r[b, i].
#include <fmt/format.h>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::query, Stage::key, Stage::value, Stage::output};
constexpr Choice kKinds[] = {{"rms"}, {"layer"}, {"l2"}};
constexpr Choice kOffsets[] = {{"no"}, {"yes"}};
constexpr TensorAxis kAxes[] = {{"heads of the stage"}, {"head_dim"}};
constexpr Parameter kParameters[] = {
    {.name = "kind",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "what is brought to one",
     .choices = kKinds},
    {.name = "weight",
     .kind = ParameterKind::tensor,
     .presence = Presence::optional,
     .about = "factor of every element",
     .fallback_about = "1",
     .axes = kAxes},
    {.name = "bias",
     .kind = ParameterKind::tensor,
     .presence = Presence::optional,
     .about = "added to every element",
     .fallback_about = "0",
     .axes = kAxes},
    {.name = "eps",
     .kind = ParameterKind::number,
     .presence = Presence::defaulted,
     .about = "added under the root",
     .fallback = 1e-6,
     .least = 0},
    {.name = "unit_offset",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "whether the factor is 1 + weight",
     .choices = kOffsets},
    {.name = "inverse",
     .kind = ParameterKind::index,
     .presence = Presence::optional,
     .about = "what x is multiplied with in place of 1 / sqrt(...)",
     .fallback_about = "computed from the row"},
};

Value sum_over_d(const BlockInput& input, const Value& x) {
  return {input.emitter,
          input.emitter.graph.add(Reduce{ReduceOp::sum}, {x.node(input.emitter)}, input.emitter.where)};
}

bool has_query_heads(const BlockInput& input) {
  return input.stage == Stage::query || input.stage == Stage::output;
}
Size row_size(const BlockInput& input) {
  return input.stage == Stage::value || input.stage == Stage::output ? Size::v_head_dim : Size::head_dim;
}

// The tensor has one number for every element of the head, or one for each head too.
bool fits(const BlockInput& input, std::string_view parameter) {
  const ProgramInfo& info = input.emitter.graph.info();
  const Size sizes[] = {has_query_heads(input) ? Size::heads : Size::kv_heads, row_size(input)};
  const TensorInfo& tensor = input.emitter.graph.tensor(input.arguments.tensor(parameter));
  for (std::size_t k = 0; k < tensor.shape.size(); ++k) {
    const Size wanted = sizes[2 - tensor.shape.size() + k];
    const int extent = *info.size(wanted);
    const auto* number = std::get_if<std::int64_t>(&tensor.shape[k].value);
    const auto* size = std::get_if<Size>(&tensor.shape[k].value);
    if (number ? *number == 1 || *number == extent : info.size(*size) == extent) continue;
    input.mistake(
        "block.argument-tensor",
        fmt::format("{} of norm must be a tensor f32[{}, {}] in {} {} line", parameter, name(sizes[0]),
                    name(sizes[1]), input.stage == Stage::output ? "an" : "a", name(input.stage)),
        "the first dimension may be left out, and any may be 1");
    return false;
  }
  return true;
}

Value expand(const BlockInput& input) {
  const Arguments& arguments = input.arguments;
  for (std::string_view parameter : {"weight", "bias"})
    if (arguments.has(parameter) && !fits(input, parameter)) return input.x;
  const int dim = *input.emitter.graph.info().size(row_size(input));
  const std::size_t kind = arguments.choice("kind");
  const bool is_layer = kind == 1;
  const Value centered = is_layer ? input.x - sum_over_d(input, input.x) * (1.0 / dim) : input.x;
  Value result = centered;
  if (arguments.has("inverse")) {
    result = centered * arguments.value("inverse");
  } else {
    const Value squares = sum_over_d(input, centered * centered);
    result = centered * rsqrt((kind == 2 ? squares : squares * (1.0 / dim)) + arguments.number("eps"));
  }
  const Value head = input.index(has_query_heads(input) ? Axis::h : Axis::g), d = input.index(Axis::d);
  if (arguments.has("weight")) {
    const Value weight = input.element("weight", {head, d});
    result = result * (arguments.choice("unit_offset") == 1 ? 1.0 + weight : weight);
  }
  return arguments.has("bias") ? result + input.element("bias", {head, d}) : result;
}

}  // namespace

constinit const Block kNorm{
    .name = "norm",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Rows of one head brought to one size.",
    .math =
        "x / sqrt(mean x^2 + eps) * weight, (x - mean) / sqrt(var + eps) * weight, x / sqrt(sum x^2 + eps)",
    .latex = R"(\frac{x}{\sqrt{\tfrac{1}{D} \sum_d x_d^2 + \epsilon}} \, w_d)",
    .source = "Zhang and Sennrich, RMSNorm (2019); Dehghani et al., ViT-22B (2023); Qwen3, Gemma-3",
    .expand = expand,
};

}  // namespace attnfuse
