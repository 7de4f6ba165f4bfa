#include "frontend/functions.h"

namespace attnfuse {
namespace {

using Values = std::span<const Value>;

template <ScalarOp op>
Value real(Values x) {
  return apply(op, {to_f32(x[0])});
}

template <ScalarOp op>
Value integer(Values x) {
  return apply(op, {x[0], x[1]});
}

// To 1.5e-7, absolute: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.26.
Value erf(Values x) {
  const Value z = to_f32(x[0]), a = abs(z);
  const Value t = 1.0 / (1.0 + 0.3275911 * a);
  Value sum = 1.061405429;
  for (double coefficient : {-1.453152027, 1.421413741, -0.284496736, 0.254829592})
    sum = sum * t + coefficient;
  const Value y = 1.0 - sum * t * exp(-(a * a));
  return select(z < 0.0, -y, y);
}

constexpr Function kFunctions[] = {
    {"abs", "n", [](Values x) { return abs(x[0]); }},
    {"min", "nn", [](Values x) { return min(x[0], x[1]); }},
    {"max", "nn", [](Values x) { return max(x[0], x[1]); }},
    {"clamp", "nnn", [](Values x) { return clamp(x[0], x[1], x[2]); }},
    {"floor", "n", real<ScalarOp::floor>},
    {"exp", "n", real<ScalarOp::exp>},
    {"exp2", "n", real<ScalarOp::exp2>},
    {"log", "n", real<ScalarOp::log>},
    {"log2", "n", real<ScalarOp::log2>},
    {"sqrt", "n", real<ScalarOp::sqrt>},
    {"rsqrt", "n", real<ScalarOp::rsqrt>},
    {"tanh", "n", real<ScalarOp::tanh>},
    {"erf", "n", erf},
    {"sin", "n", real<ScalarOp::sin>},
    {"cos", "n", real<ScalarOp::cos>},
    {"bit_and", "ii", integer<ScalarOp::bit_and>},
    {"bit_or", "ii", integer<ScalarOp::bit_or>},
    {"bit_xor", "ii", integer<ScalarOp::bit_xor>},
    {"bit_not", "i", [](Values x) { return apply(ScalarOp::bit_not, {x[0]}); }},
    {"shift_left", "ii", integer<ScalarOp::shift_left>},
    {"shift_right", "ii", integer<ScalarOp::shift_right>},
    {"philox", "iiii", [](Values x) { return apply(ScalarOp::philox, {x[0], x[1], x[2], x[3]}); }},
    {"select", "bas", [](Values x) { return select(x[0], x[1], x[2]); }},
    {"to_f32", "a", [](Values x) { return to_f32(x[0]); }},
    {"to_i32", "a", [](Values x) { return to_i32(x[0]); }},
};

}  // namespace

std::span<const Function> functions() { return kFunctions; }

const Function* find_function(std::string_view name) {
  for (const Function& function : kFunctions)
    if (function.name == name) return &function;
  return nullptr;
}

}  // namespace attnfuse
