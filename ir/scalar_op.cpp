#include "ir/scalar_op.h"

#include <algorithm>
#include <cmath>

#include "ir/scalar_op_rules.h"

namespace attnfuse {
namespace {

using Values = std::span<const double>;
using enum ValueType;
using P = Precedence;

double truth_value(bool value) { return value ? 1 : 0; }
double saturated(double value) {
  return std::isnan(value) ? 0 : std::clamp<double>(std::floor(value), INT32_MIN, INT32_MAX);
}
std::int32_t bits(double value) { return std::int32_t(std::int64_t(value)); }
int amount(double value) { return bits(value) & 31; }

// Word j % 4 of Philox4x32-10 (Salmon et al., 2011) at counter (j // 4, i, n, 0) with key (seed, 0).
std::uint32_t philox(std::int32_t seed, std::int32_t n, std::int32_t i, std::int32_t j) {
  constexpr int kRounds = 10;
  constexpr std::uint64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
  constexpr std::uint32_t kSteps[] = {0x9E3779B9, 0xBB67AE85};
  std::uint32_t c[] = {std::uint32_t(j >> 2), std::uint32_t(i), std::uint32_t(n), 0};
  std::uint32_t key[] = {std::uint32_t(seed), 0};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t a = kMultipliers[0] * c[0], b = kMultipliers[1] * c[2];
    c[0] = std::uint32_t(b >> 32) ^ c[1] ^ key[0];
    c[1] = std::uint32_t(b);
    c[2] = std::uint32_t(a >> 32) ^ c[3] ^ key[1];
    c[3] = std::uint32_t(a);
    for (int k : {0, 1}) key[k] += kSteps[k];
  }
  return c[j & 3];
}
// As an f32 can hold them: the upper 24 bits of the word.
double even(std::uint32_t word) { return std::ldexp(double(word >> 8), -24); }

// clang-format off: two lines a row
// name arity {operand types} result | value | range vjp | spelling precedence | latex
constexpr ScalarOpInfo kOps[] = {
    // f32 arithmetic
    {ScalarOp::add, "add", 2, {f32, f32}, f32, [](Values x) { return x[0] + x[1]; },
     range::add, vjp::add, "$0 + $1", P::additive, "$0 + $1"},
    {ScalarOp::sub, "sub", 2, {f32, f32}, f32, [](Values x) { return x[0] - x[1]; },
     range::sub, vjp::sub, "$0 - $1", P::additive, "$0 - $1"},
    {ScalarOp::mul, "mul", 2, {f32, f32}, f32, [](Values x) { return x[0] * x[1]; },
     range::mul, vjp::mul, "$0 * $1", P::multiplicative, "$0 \\cdot $1"},
    {ScalarOp::div, "div", 2, {f32, f32}, f32, [](Values x) { return x[0] / x[1]; },
     range::div, vjp::div, "$0 / $1", P::multiplicative, "\\frac{$0}{$1}"},
    {ScalarOp::neg, "neg", 1, {f32}, f32, [](Values x) { return -x[0]; },
     range::neg, vjp::neg, "-$0", P::unary, "-$0"},
    {ScalarOp::abs, "abs", 1, {f32}, f32, [](Values x) { return std::fabs(x[0]); },
     range::abs, vjp::abs, "af_abs($0)", P::primary, "\\lvert{$0}\\rvert"},
    {ScalarOp::min, "min", 2, {f32, f32}, f32, [](Values x) { return std::fmin(x[0], x[1]); },
     range::min, vjp::min, "af_min($0, $1)", P::primary, "\\min({$0}, {$1})"},
    {ScalarOp::max, "max", 2, {f32, f32}, f32, [](Values x) { return std::fmax(x[0], x[1]); },
     range::max, vjp::max, "af_max($0, $1)", P::primary, "\\max({$0}, {$1})"},
    {ScalarOp::floor, "floor", 1, {f32}, f32, [](Values x) { return std::floor(x[0]); },
     range::floor, vjp::zero, "af_floor($0)", P::primary, "\\lfloor{$0}\\rfloor"},
    {ScalarOp::exp, "exp", 1, {f32}, f32, [](Values x) { return std::exp(x[0]); },
     range::exp, vjp::exp, "af_exp($0)", P::primary, "\\exp({$0})"},
    {ScalarOp::exp2, "exp2", 1, {f32}, f32, [](Values x) { return std::exp2(x[0]); },
     range::exp2, vjp::exp2, "af_exp2($0)", P::primary, "2^{$0}"},
    {ScalarOp::log, "log", 1, {f32}, f32, [](Values x) { return std::log(x[0]); },
     range::log, vjp::log, "af_log($0)", P::primary, "\\ln({$0})"},
    {ScalarOp::log2, "log2", 1, {f32}, f32, [](Values x) { return std::log2(x[0]); },
     range::log2, vjp::log2, "af_log2($0)", P::primary, "\\log_2({$0})"},
    {ScalarOp::sqrt, "sqrt", 1, {f32}, f32, [](Values x) { return std::sqrt(x[0]); },
     range::sqrt, vjp::sqrt, "af_sqrt($0)", P::primary, "\\sqrt{$0}"},
    {ScalarOp::rsqrt, "rsqrt", 1, {f32}, f32, [](Values x) { return 1 / std::sqrt(x[0]); },
     range::rsqrt, vjp::rsqrt, "af_rsqrt($0)", P::primary, "\\frac{1}{\\sqrt{$0}}"},
    {ScalarOp::tanh, "tanh", 1, {f32}, f32, [](Values x) { return std::tanh(x[0]); },
     range::tanh, vjp::tanh, "af_tanh($0)", P::primary, "\\tanh({$0})"},
    {ScalarOp::sin, "sin", 1, {f32}, f32, [](Values x) { return std::sin(x[0]); },
     range::sin, vjp::sin, "af_sin($0)", P::primary, "\\sin({$0})"},
    {ScalarOp::cos, "cos", 1, {f32}, f32, [](Values x) { return std::cos(x[0]); },
     range::cos, vjp::cos, "af_cos($0)", P::primary, "\\cos({$0})"},

    // i32 arithmetic
    {ScalarOp::iadd, "iadd", 2, {i32, i32}, i32, [](Values x) { return x[0] + x[1]; },
     range::iadd, nullptr, "$0 + $1", P::additive, "$0 + $1"},
    {ScalarOp::isub, "isub", 2, {i32, i32}, i32, [](Values x) { return x[0] - x[1]; },
     range::isub, nullptr, "$0 - $1", P::additive, "$0 - $1"},
    {ScalarOp::imul, "imul", 2, {i32, i32}, i32, [](Values x) { return x[0] * x[1]; },
     range::imul, nullptr, "$0 * $1", P::multiplicative, "$0 \\cdot $1"},
    {ScalarOp::idiv, "idiv", 2, {i32, i32}, i32, [](Values x) { return x[1] == 0 ? 0 : std::floor(x[0] / x[1]); },
     range::idiv, nullptr, "af_floordiv($0, $1)", P::primary, R"(\lfloor\frac{$0}{$1}\rfloor)"},
    {ScalarOp::imod, "imod", 2, {i32, i32}, i32,
     [](Values x) { return x[1] == 0 ? 0 : x[0] - std::floor(x[0] / x[1]) * x[1]; },
     range::imod, nullptr, "af_floormod($0, $1)", P::primary, "({$0} \\bmod {$1})"},
    {ScalarOp::ineg, "ineg", 1, {i32}, i32, [](Values x) { return -x[0]; },
     range::neg, nullptr, "-$0", P::unary, "-$0"},
    {ScalarOp::imin, "imin", 2, {i32, i32}, i32, [](Values x) { return std::fmin(x[0], x[1]); },
     range::imin, nullptr, "af_imin($0, $1)", P::primary, "\\min({$0}, {$1})"},
    {ScalarOp::imax, "imax", 2, {i32, i32}, i32, [](Values x) { return std::fmax(x[0], x[1]); },
     range::imax, nullptr, "af_imax($0, $1)", P::primary, "\\max({$0}, {$1})"},
    {ScalarOp::bit_and, "bit_and", 2, {i32, i32}, i32, [](Values x) { return double(bits(x[0]) & bits(x[1])); },
     range::bit_and, nullptr, "af_bit_and($0, $1)", P::primary, "({$0} \\mathbin{\\&} {$1})"},
    {ScalarOp::bit_or, "bit_or", 2, {i32, i32}, i32, [](Values x) { return double(bits(x[0]) | bits(x[1])); },
     range::bit_or, nullptr, "af_bit_or($0, $1)", P::primary, "({$0} \\mathbin{|} {$1})"},
    {ScalarOp::bit_xor, "bit_xor", 2, {i32, i32}, i32, [](Values x) { return double(bits(x[0]) ^ bits(x[1])); },
     range::bit_xor, nullptr, "af_bit_xor($0, $1)", P::primary, "({$0} \\oplus {$1})"},
    {ScalarOp::bit_not, "bit_not", 1, {i32}, i32, [](Values x) { return double(~bits(x[0])); },
     range::bit_not, nullptr, "af_bit_not($0)", P::primary, "(\\mathord{\\sim} {$0})"},
    {ScalarOp::shift_left, "shift_left", 2, {i32, i32}, i32,
     [](Values x) { return double(std::int32_t(std::uint32_t(bits(x[0])) << amount(x[1]))); },
     range::shift_left, nullptr, "af_shift_left($0, $1)", P::primary, "({$0} \\ll {$1})"},
    {ScalarOp::shift_right, "shift_right", 2, {i32, i32}, i32,
     [](Values x) { return double(bits(x[0]) >> amount(x[1])); },
     range::shift_right, nullptr, "af_shift_right($0, $1)", P::primary, "({$0} \\gg {$1})"},

    // random numbers
    {ScalarOp::philox, "philox", 4, {i32, i32, i32, i32}, f32,
     [](Values x) { return even(philox(bits(x[0]), bits(x[1]), bits(x[2]), bits(x[3]))); },
     range::philox, nullptr, "af_philox($0, $1, $2, $3)", P::primary,
     "\\mathrm{philox}({$0}, {$1}, {$2}, {$3})"},

    // comparisons
    {ScalarOp::lt, "lt", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] < x[1]); },
     range::lt, vjp::zero, "$0 < $1", P::relational, "$0 < $1"},
    {ScalarOp::le, "le", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] <= x[1]); },
     range::le, vjp::zero, "$0 <= $1", P::relational, "$0 \\le $1"},
    {ScalarOp::gt, "gt", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] > x[1]); },
     range::gt, vjp::zero, "$0 > $1", P::relational, "$0 > $1"},
    {ScalarOp::ge, "ge", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] >= x[1]); },
     range::ge, vjp::zero, "$0 >= $1", P::relational, "$0 \\ge $1"},
    {ScalarOp::eq, "eq", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] == x[1]); },
     range::eq, vjp::zero, "$0 == $1", P::equality, "$0 = $1"},
    {ScalarOp::ne, "ne", 2, {f32, f32}, boolean, [](Values x) { return truth_value(x[0] != x[1]); },
     range::ne, vjp::zero, "$0 != $1", P::equality, "$0 \\ne $1"},
    {ScalarOp::ilt, "ilt", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] < x[1]); },
     range::ilt, nullptr, "$0 < $1", P::relational, "$0 < $1"},
    {ScalarOp::ile, "ile", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] <= x[1]); },
     range::ile, nullptr, "$0 <= $1", P::relational, "$0 \\le $1"},
    {ScalarOp::igt, "igt", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] > x[1]); },
     range::igt, nullptr, "$0 > $1", P::relational, "$0 > $1"},
    {ScalarOp::ige, "ige", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] >= x[1]); },
     range::ige, nullptr, "$0 >= $1", P::relational, "$0 \\ge $1"},
    {ScalarOp::ieq, "ieq", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] == x[1]); },
     range::eq, nullptr, "$0 == $1", P::equality, "$0 = $1"},
    {ScalarOp::ine, "ine", 2, {i32, i32}, boolean, [](Values x) { return truth_value(x[0] != x[1]); },
     range::ne, nullptr, "$0 != $1", P::equality, "$0 \\ne $1"},

    // boolean
    {ScalarOp::logical_and, "and", 2, {boolean, boolean}, boolean,
     [](Values x) { return truth_value(x[0] != 0 && x[1] != 0); },
     range::logical_and, nullptr, "$0 && $1", P::logical_and, "$0 \\land $1"},
    {ScalarOp::logical_or, "or", 2, {boolean, boolean}, boolean,
     [](Values x) { return truth_value(x[0] != 0 || x[1] != 0); },
     range::logical_or, nullptr, "$0 || $1", P::logical_or, "$0 \\lor $1"},
    {ScalarOp::logical_not, "not", 1, {boolean}, boolean, [](Values x) { return truth_value(x[0] == 0); },
     range::logical_not, nullptr, "!$0", P::unary, "\\lnot $0"},

    // choice
    {ScalarOp::select, "select", 3, {boolean, f32, f32}, f32, [](Values x) { return x[0] != 0 ? x[1] : x[2]; },
     range::select, vjp::select, "$0 ? $1 : $2", P::ternary,
     R"(\begin{cases}{$1} & \text{if }{$0} \\ {$2} & \text{otherwise}\end{cases})"},
    {ScalarOp::iselect, "iselect", 3, {boolean, i32, i32}, i32, [](Values x) { return x[0] != 0 ? x[1] : x[2]; },
     range::select, nullptr, "$0 ? $1 : $2", P::ternary,
     R"(\begin{cases}{$1} & \text{if }{$0} \\ {$2} & \text{otherwise}\end{cases})"},

    // conversions
    {ScalarOp::to_f32, "to_f32", 1, {i32}, f32, [](Values x) { return x[0]; },
     range::same, nullptr, "float($0)", P::primary, "$0"},
    {ScalarOp::to_i32, "to_i32", 1, {f32}, i32, [](Values x) { return saturated(x[0]); },
     range::to_i32, vjp::zero, "int(af_floor($0))", P::primary, "\\lfloor{$0}\\rfloor"},
    {ScalarOp::bool_to_f32, "bool_to_f32", 1, {boolean}, f32, [](Values x) { return truth_value(x[0] != 0); },
     range::truth, nullptr, "($0 ? 1.0f : 0.0f)", P::primary, "\\mathbb{1}[{$0}]"},
};
// clang-format on

constexpr bool in_enumerator_order() {
  for (std::size_t k = 0; k < std::size(kOps); ++k)
    if (std::size_t(kOps[k].op) != k) return false;
  return true;
}
static_assert(in_enumerator_order());
static_assert(std::size(kOps) == std::size_t(ScalarOp::bool_to_f32) + 1);

}  // namespace

std::span<const ScalarOpInfo> scalar_ops() { return kOps; }
const ScalarOpInfo& info(ScalarOp op) { return kOps[std::size_t(op)]; }

}  // namespace attnfuse
