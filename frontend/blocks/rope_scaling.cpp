// rope's parameter `scaling`: what models do to the frequencies f_p = theta^(-2p/n) so that contexts longer
// than the first training's, of original_context positions, stay inside what was learned.
//
//   linear         f / factor (Chen et al., "Position Interpolation", 2023)
//   ntk            theta * factor^(n / (n - 2)) in place of theta ("NTK-aware", 2023)
//   dynamic_ntk    the same with the factor that skv asks for: factor * skv / original_context - (factor -
//   1),
//                  at least 1
//   ntk_by_parts   pairs with more than beta_fast turns over the original context stay, those with less than
//                  beta_slow slow down by `factor`, a straight line between (in p)
//   yarn           the same, and turned elements grow by attention_factor (Peng et al., "YaRN", 2023;
//   gpt-oss,
//                  DeepSeek)
//   llama3         as by parts, with a line in turns instead of p (Llama-3.1)
//   longrope       f / short[p], or f / long[p] once skv exceeds original_context (Ding et al., 2024; Phi-3)
#include <algorithm>
#include <cmath>
#include <numbers>

#include "frontend/blocks/rope.h"

namespace attnfuse {
namespace {

constexpr Parameter number(std::string_view name, std::string_view about, Presence presence, double fallback,
                           double least, bool above_least, std::string_view fallback_about = {}) {
  return {.name = name,
          .kind = ParameterKind::number,
          .presence = presence,
          .about = about,
          .fallback = fallback,
          .fallback_about = fallback_about,
          .least = least,
          .above_least = above_least};
}

constexpr Parameter kFactor =
    number("factor", "how much longer contexts become", Presence::required, 0, 1, false);
constexpr Parameter kSlowdown =
    number("factor", "how much slow pairs slow down", Presence::defaulted, 8, 1, false);
constexpr Parameter kOriginal = number("original_context", "positions the model was first trained for",
                                       Presence::defaulted, 8192, 2, false);
constexpr Parameter kRequiredOriginal =
    number("original_context", "positions the model was first trained for", Presence::required, 0, 2, false);
constexpr Parameter kFast = number("beta_fast", "pairs with more turns over the original context stay",
                                   Presence::defaulted, 32, 0, true);
constexpr Parameter kSlow =
    number("beta_slow", "pairs with fewer turns slow down entirely", Presence::defaulted, 1, 0, true);
constexpr Choice kTruncations[] = {{"yes"}, {"no"}};
constexpr Parameter kTruncate{
    .name = "truncate",
    .kind = ParameterKind::choice,
    .presence = Presence::defaulted,
    .about = "whether the line between starts and ends at whole pairs (gpt-oss: no)",
    .choices = kTruncations};
constexpr Parameter kYarnAttention = number("attention_factor", "factor of turned elements",
                                            Presence::optional, 0, 0, true, "0.1 ln(factor) + 1");
constexpr Parameter kLongAttention =
    number("attention_factor", "factor of turned elements", Presence::optional, 0, 0, true,
           "sqrt(1 + ln(factor) / ln(original_context))");

constexpr Parameter kLinear[] = {kFactor};
constexpr Parameter kDynamic[] = {kFactor, kRequiredOriginal};
constexpr Parameter kParts[] = {kFactor, kRequiredOriginal, kFast, kSlow, kTruncate};
constexpr Parameter kYarn[] = {kFactor, kRequiredOriginal, kFast, kSlow, kYarnAttention, kTruncate};
constexpr Parameter kLlama3[] = {
    kSlowdown,
    number("low_freq_factor", "pairs with fewer turns than this over the original context slow down entirely",
           Presence::defaulted, 1, 0, true),
    number("high_freq_factor", "pairs with more turns than this over the original context stay",
           Presence::defaulted, 4, 0, true),
    kOriginal,
};
constexpr TensorAxis kByPair[] = {{"dims / 2", {}, true}};
constexpr Parameter kLong[] = {
    {.name = "short",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "divisor of every pair's frequency, up to the original context",
     .axes = kByPair},
    {.name = "long",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "divisor of every pair's frequency, beyond the original context",
     .axes = kByPair},
    kRequiredOriginal,
    number("factor", "how much longer contexts become", Presence::defaulted, 1, 1, false),
    kLongAttention,
};

enum class Scaling : std::uint8_t { none, llama3, linear, ntk, dynamic_ntk, ntk_by_parts, yarn, longrope };
constexpr Choice kScalings[] = {{"none"},         {"llama3", kLlama3},       {"linear", kLinear},
                                {"ntk", kLinear}, {"dynamic_ntk", kDynamic}, {"ntk_by_parts", kParts},
                                {"yarn", kYarn},  {"longrope", kLong}};

// Turns over the original context decide; between the two factors the slowdown is interpolated.
Value llama3(const Value& frequency, const Arguments& scaling) {
  const double low = scaling.number("low_freq_factor"), high = scaling.number("high_freq_factor");
  const double factor = scaling.number("factor");
  const Value turns = frequency * (scaling.number("original_context") / (2 * std::numbers::pi));
  const Value kept = high > low ? clamp((turns - low) * (1 / (high - low)), 0.0, 1.0) : to_f32(turns >= low);
  const Value slowed = (1.0 - kept) * (1 / factor);
  return frequency * (kept + slowed);
}

// The slope of a pair's exponent for one power of two of the factor: factor^(-2p/(n-2)).
Value ntk_exponent(const Value& pair, double n) { return pair * (n > 2 ? -2 / (n - 2) : 0.0); }

Value by_parts(const Value& frequency, const Value& pair, const Arguments& scaling, double theta, double n) {
  // The pair, as a real number, that makes so many turns over the original context.
  const auto pair_with = [&](double turns) {
    return n * std::log(scaling.number("original_context") / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(theta));
  };
  double low = pair_with(scaling.number("beta_fast")), high = pair_with(scaling.number("beta_slow"));
  if (scaling.choice("truncate") == 0) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, n - 1);
  constexpr double kLeastWidth = 0.001;
  const double width = high == low ? kLeastWidth : high - low;
  const Value slowed = clamp((pair - low) * (1 / width), 0.0, 1.0);
  const Value kept = 1.0 - slowed;
  return frequency * (kept + slowed * (1 / scaling.number("factor")));
}

Frequency longrope(const BlockInput& input, const Value& frequency, const Value& pair,
                   const Arguments& scaling) {
  const double original = scaling.number("original_context"), factor = scaling.number("factor");
  const Value near = input.element(scaling, "short", {pair});
  const Value far = input.element(scaling, "long", {pair});
  const Value is_long = input.size(Size::skv) > int(std::min(original, kMostKeys));
  const double attention = scaling.has("attention_factor")
                               ? scaling.number("attention_factor")
                               : std::sqrt(1 + std::log(factor) / std::log(original));
  return {frequency / select(is_long, far, near), attention};
}

}  // namespace

std::span<const Choice> rope_scalings() noexcept { return kScalings; }

Frequency scaled_frequency(const BlockInput& input, const Value& frequency, const Value& pair, double theta,
                           double n) {
  const auto chosen = Scaling(input.arguments.choice("scaling"));
  if (chosen == Scaling::none) return {frequency};
  const Arguments scaling = input.arguments.nested("scaling");
  const double factor = scaling.number("factor");  // all have one
  switch (chosen) {
    case Scaling::none:
      return {frequency};
    case Scaling::llama3:
      return {llama3(frequency, scaling)};
    case Scaling::linear:
      return {frequency * (1 / factor)};
    case Scaling::ntk:
      return {frequency * exp2(ntk_exponent(pair, n) * std::log2(factor))};
    case Scaling::dynamic_ntk: {
      const Value asked =
          input.size(Size::skv) * (factor / scaling.number("original_context")) - (factor - 1);
      return {frequency * exp2(ntk_exponent(pair, n) * log2(max(asked, 1.0)))};
    }
    case Scaling::ntk_by_parts:
      return {by_parts(frequency, pair, scaling, theta, n)};
    case Scaling::yarn:
      return {by_parts(frequency, pair, scaling, theta, n), scaling.has("attention_factor")
                                                                ? scaling.number("attention_factor")
                                                                : 0.1 * std::log(factor) + 1};
    case Scaling::longrope:
      break;
  }
  return longrope(input, frequency, pair, scaling);
}

}  // namespace attnfuse
