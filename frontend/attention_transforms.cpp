// What the C++ builder does to queries, keys and values.
#include <fmt/format.h>

#include "frontend/call.h"

namespace attnfuse {
namespace {

Call& add_pairs(Call& call, RotaryPairs pairs) {
  if (pairs == RotaryPairs::interleaved) call.named("pairs", make_name("interleaved"));
  return call;
}

template <class Value>
void add_optional(Call& call, const char* name, const std::optional<Value>& value) {
  if (value) call.named(name, argument(*value));
}

// Beta and truncation of YaRN and of NTK by parts.
template <class Scaling>
Call parts(const char* word, const Scaling& scaling) {
  Call call(word);
  call.named("factor", argument(scaling.factor))
      .named("original_context", argument(scaling.original_context))
      .named("beta_fast", argument(scaling.beta_fast))
      .named("beta_slow", argument(scaling.beta_slow));
  if (!scaling.truncate) call.named("truncate", make_name("no"));
  return call;
}

Expression scaling_call(const RopeScaling& scaling) {
  return std::visit(
      overloaded{
          [](const Llama3Scaling& s) {
            return Call("llama3")
                .named("factor", argument(s.factor))
                .named("low_freq_factor", argument(s.low_freq_factor))
                .named("high_freq_factor", argument(s.high_freq_factor))
                .named("original_context", argument(s.original_context))
                .expression();
          },
          [](const LinearScaling& s) {
            return Call("linear").named("factor", argument(s.factor)).expression();
          },
          [](const NtkScaling& s) { return Call("ntk").named("factor", argument(s.factor)).expression(); },
          [](const DynamicNtkScaling& s) {
            return Call("dynamic_ntk")
                .named("factor", argument(s.factor))
                .named("original_context", argument(s.original_context))
                .expression();
          },
          [](const NtkByPartsScaling& s) { return parts("ntk_by_parts", s).expression(); },
          [](const YarnScaling& s) {
            Call call = parts("yarn", s);
            add_optional(call, "attention_factor", s.attention_factor);
            return call.expression();
          },
          [](const LongRopeScaling& s) {
            Call call("longrope");
            call.named("short", argument(s.near))
                .named("long", argument(s.far))
                .named("original_context", argument(s.original_context))
                .named("factor", argument(s.factor));
            add_optional(call, "attention_factor", s.attention_factor);
            return call.expression();
          },
      },
      scaling);
}

Expression axes_call(const RopeAxes& axes) {
  constexpr const char* kLayouts[] = {"chunked", "interleaved", "axial"};
  Call call(kLayouts[std::size_t(axes.layout)]);
  for (int section : axes.sections) call.positional(argument(section));
  return call.expression();
}

}  // namespace

namespace {
BlockCall rope_call(const char* block, const RopeOptions& options) {
  Call call(block);
  call.named("theta", argument(options.theta));
  add_pairs(call, options.pairs);
  add_optional(call, "dims", options.dims);
  if (options.scaling) call.named("scaling", scaling_call(*options.scaling));
  add_optional(call, "position", options.position);
  add_optional(call, "offset", options.offset);
  if (options.start != 0) call.named("start", argument(options.start));
  add_optional(call, "distance", options.distance);
  add_optional(call, "denominator", options.denominator);
  if (options.axes) call.named("axes", axes_call(*options.axes));
  int axis = 2;
  for (const Term& position : options.more_positions)
    call.named(fmt::format("position_{}", axis++), argument(position));
  return {call.expression()};
}
}  // namespace

BlockCall rope(const RopeOptions& options) { return rope_call("rope", options); }
BlockCall inverse_rope(const RopeOptions& options) { return rope_call("inverse_rope", options); }

BlockCall xpos(const XposOptions& options) {
  Call call("xpos");
  call.named("gamma", argument(options.gamma)).named("scale_base", argument(options.scale_base));
  add_pairs(call, options.pairs);
  add_optional(call, "dims", options.dims);
  add_optional(call, "position", options.position);
  add_optional(call, "offset", options.offset);
  return {call.expression()};
}

BlockCall norm(const NormOptions& options) {
  constexpr const char* kKinds[] = {"rms", "layer", "l2"};
  Call call("norm");
  call.positional(make_name(kKinds[std::size_t(options.kind)]));
  add_optional(call, "weight", options.weight);
  add_optional(call, "bias", options.bias);
  call.named("eps", argument(options.eps));
  if (options.unit_offset) call.named("unit_offset", make_name("yes"));
  add_optional(call, "inverse", options.inverse);
  return {call.expression()};
}

BlockCall clip(double c) { return {Call("clip").positional(argument(c)).expression()}; }

BlockCall scale_by_position(int length, double scale) {
  return {Call("scale_by_position")
              .positional(argument(length))
              .positional(Call("steps").positional(argument(scale)).expression())
              .expression()};
}
BlockCall scale_by_log_position(int length) {
  return {Call("scale_by_position").positional(argument(length)).positional(make_name("log_n")).expression()};
}

}  // namespace attnfuse
