// Interval rules. Sums, products and comparisons are exact at the endpoints because rounding is monotone;
// library functions are widened by a few units in the last place. Whatever may give NaN gives everything().
#include <algorithm>
#include <cmath>

#include "ir/scalar_op_rules.h"

namespace attnfuse::range {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool unbounded(Interval x) { return std::isinf(x.lo) || std::isinf(x.hi); }
bool any_everything(Ranges x) {
  return std::ranges::any_of(x, [](Interval operand) { return operand.is_everything(); });
}

Interval hull_of(std::initializer_list<double> corners) {
  Interval result{kInfinity, -kInfinity};
  for (double corner : corners) {
    if (std::isnan(corner)) return Interval::everything();
    result = hull(result, Interval::point(corner));
  }
  return result;
}

// Room for the error of a library function, at most about one unit in the last place everywhere.
Interval widened(double lo, double hi) {
  for (int step = 0; step < 4; ++step) {
    lo = std::nextafter(lo, -kInfinity);
    hi = std::nextafter(hi, kInfinity);
  }
  return {lo, hi};
}

Interval clamped(Interval x, double lo, double hi) {
  return {std::clamp(x.lo, lo, hi), std::clamp(x.hi, lo, hi)};
}

template <class Function>
Interval increasing(Interval x, Function function) {
  return x.is_everything() ? x : widened(function(x.lo), function(x.hi));
}

Interval truth_of(bool always, bool never) { return {always ? 1.0 : 0.0, never ? 0.0 : 1.0}; }
Interval boolean(Interval x) { return clamped(x, 0, 1); }

}  // namespace

Interval same(Ranges x) { return x[0]; }
Interval truth(Ranges x) { return boolean(x[0]); }

// ---- f32 ----

// Infinities of opposite sign give NaN, and then both ends of the sum are infinite or NaN.
Interval add(Ranges x) {
  if (any_everything(x)) return Interval::everything();
  const Interval sum{x[0].lo + x[1].lo, x[0].hi + x[1].hi};
  return std::isnan(sum.lo) || std::isnan(sum.hi) ? Interval::everything() : sum;
}

Interval neg(Ranges x) { return {-x[0].hi, -x[0].lo}; }

Interval sub(Ranges x) {
  const Interval operands[] = {x[0], neg(x.subspan(1, 1))};
  return add(operands);
}

Interval mul(Ranges x) {
  const auto [a, b] = std::pair(x[0], x[1]);
  if (any_everything(x) || (a.contains(0) && unbounded(b)) || (b.contains(0) && unbounded(a)))
    return Interval::everything();
  return hull_of({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
}

Interval div(Ranges x) {
  const auto [a, b] = std::pair(x[0], x[1]);
  if (any_everything(x) || b.contains(0) || (unbounded(a) && unbounded(b))) return Interval::everything();
  return hull_of({a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi});
}

Interval abs(Ranges x) {
  if (x[0].is_everything()) return x[0];
  const double far = std::max(std::fabs(x[0].lo), std::fabs(x[0].hi));
  return {x[0].contains(0) ? 0.0 : std::min(std::fabs(x[0].lo), std::fabs(x[0].hi)), far};
}

// Targets differ in what min and max make of NaN.
Interval min(Ranges x) { return any_everything(x) ? Interval::everything() : imin(x); }
Interval max(Ranges x) { return any_everything(x) ? Interval::everything() : imax(x); }

Interval floor(Ranges x) { return {std::floor(x[0].lo), std::floor(x[0].hi)}; }

Interval exp(Ranges x) {
  const Interval result = increasing(x[0], [](double v) { return std::exp(v); });
  return result.is_everything() ? result : clamped(result, 0, kInfinity);
}

Interval exp2(Ranges x) {
  const Interval result = increasing(x[0], [](double v) { return std::exp2(v); });
  return result.is_everything() ? result : clamped(result, 0, kInfinity);
}

Interval log(Ranges x) {
  return x[0].lo < 0 ? Interval::everything() : increasing(x[0], [](double v) { return std::log(v); });
}

Interval log2(Ranges x) {
  return x[0].lo < 0 ? Interval::everything() : increasing(x[0], [](double v) { return std::log2(v); });
}

Interval sqrt(Ranges x) {
  return x[0].lo < 0 ? Interval::everything() : Interval{std::sqrt(x[0].lo), std::sqrt(x[0].hi)};
}

// At zero the sign of the infinity is the sign of the zero.
Interval rsqrt(Ranges x) {
  return x[0].lo <= 0 ? Interval::everything() : widened(1 / std::sqrt(x[0].hi), 1 / std::sqrt(x[0].lo));
}

Interval tanh(Ranges x) {
  const Interval result = increasing(x[0], [](double v) { return std::tanh(v); });
  return result.is_everything() ? result : clamped(result, -1, 1);
}

Interval sin(Ranges x) {
  if (unbounded(x[0])) return Interval::everything();
  return x[0].is_point() ? clamped(widened(std::sin(x[0].lo), std::sin(x[0].lo)), -1, 1) : Interval{-1, 1};
}

Interval cos(Ranges x) {
  if (unbounded(x[0])) return Interval::everything();
  return x[0].is_point() ? clamped(widened(std::cos(x[0].lo), std::cos(x[0].lo)), -1, 1) : Interval{-1, 1};
}

Interval to_i32(Ranges x) { return clamped(floor(x), INT32_MIN, INT32_MAX); }

// ---- i32: infinite ends only say that there is no bound ----

namespace {

double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

// Of a non-zero number by a divisor without bound: 0 or, rounded down, -1.
double floored_quotient(double a, double b) {
  if (a == 0) return 0;
  if (std::isinf(b)) return (a < 0) == (b < 0) ? 0 : -1;
  return std::floor(a / b);
}

}  // namespace

Interval iadd(Ranges x) {
  const Interval sum{x[0].lo + x[1].lo, x[0].hi + x[1].hi};
  return {std::isnan(sum.lo) ? -kInfinity : sum.lo, std::isnan(sum.hi) ? kInfinity : sum.hi};
}

Interval isub(Ranges x) {
  const Interval operands[] = {x[0], neg(x.subspan(1, 1))};
  return iadd(operands);
}

Interval imul(Ranges x) {
  const auto [a, b] = std::pair(x[0], x[1]);
  return hull_of({product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi)});
}

Interval idiv(Ranges x) {
  const auto [a, b] = std::pair(x[0], x[1]);
  if (b.contains(0)) return Interval::everything();
  return hull_of({floored_quotient(a.lo, b.lo), floored_quotient(a.lo, b.hi), floored_quotient(a.hi, b.lo),
                  floored_quotient(a.hi, b.hi)});
}

Interval imod(Ranges x) {
  const auto [a, b] = std::pair(x[0], x[1]);
  if (b.contains(0)) return Interval::everything();
  if (b.is_point() && !unbounded(b) && !unbounded(a) && std::floor(a.lo / b.lo) == std::floor(a.hi / b.lo)) {
    const double base = std::floor(a.lo / b.lo) * b.lo;
    return {a.lo - base, a.hi - base};
  }
  if (b.hi < 0) return {a.hi <= 0 ? std::max(a.lo, b.lo + 1) : b.lo + 1, 0};
  if (a.lo >= 0 && a.hi < b.lo) return a;
  return {0, a.lo >= 0 ? std::min(a.hi, b.hi - 1) : b.hi - 1};
}

Interval imin(Ranges x) { return {std::min(x[0].lo, x[1].lo), std::min(x[0].hi, x[1].hi)}; }
Interval imax(Ranges x) { return {std::max(x[0].lo, x[1].lo), std::max(x[0].hi, x[1].hi)}; }

// ---- bits of an i32 ----

namespace {

constexpr Interval kAllBits{INT32_MIN, INT32_MAX};

// The least 2^n - 1 that is at least this.
double filled(double value) {
  double result = 0;
  while (result < value && result < INT32_MAX) result = 2 * result + 1;
  return result;
}

bool is_natural(Interval x) { return x.lo >= 0; }

// Of values that agree with the sign bit from some bit on.
Interval as_wide(Ranges x) {
  const double far = std::max({-x[0].lo - 1, x[0].hi, -x[1].lo - 1, x[1].hi});
  return {-filled(far) - 1, filled(far)};
}

int shift_amount(Interval x) { return int(std::int64_t(x.lo) & 31); }

}  // namespace

Interval bit_and(Ranges x) {
  if (!is_natural(x[0]) && !is_natural(x[1])) return as_wide(x);
  return {0, std::min(is_natural(x[0]) ? x[0].hi : kInfinity, is_natural(x[1]) ? x[1].hi : kInfinity)};
}

// Setting bits makes a number larger, whatever its sign.
Interval bit_or(Ranges x) {
  const bool natural = is_natural(x[0]) && is_natural(x[1]);
  const double lo = natural ? std::max(x[0].lo, x[1].lo) : std::min(x[0].lo, x[1].lo);
  return {lo, x[0].hi < 0 || x[1].hi < 0 ? -1 : filled(std::max(x[0].hi, x[1].hi))};
}

Interval bit_xor(Ranges x) {
  const Interval wide = as_wide(x);
  return is_natural(x[0]) && is_natural(x[1]) ? Interval{0, wide.hi} : wide;
}

Interval bit_not(Ranges x) { return {-x[0].hi - 1, -x[0].lo - 1}; }

Interval shift_left(Ranges x) {
  if (!x[1].is_point()) return kAllBits;
  const double factor = std::exp2(shift_amount(x[1]));
  const Interval moved{x[0].lo * factor, x[0].hi * factor};
  return moved.lo < kAllBits.lo || moved.hi > kAllBits.hi ? kAllBits : moved;
}

Interval philox(Ranges) { return {0, 1}; }

Interval shift_right(Ranges x) {
  if (!x[1].is_point()) return {std::min(x[0].lo, 0.0), std::max(x[0].hi, -1.0)};
  const double factor = std::exp2(shift_amount(x[1]));
  return {std::floor(x[0].lo / factor), std::floor(x[0].hi / factor)};
}

// ---- comparisons: with NaN all but != are false ----

Interval ilt(Ranges x) { return truth_of(x[0].hi < x[1].lo, x[0].lo >= x[1].hi); }
Interval ile(Ranges x) { return truth_of(x[0].hi <= x[1].lo, x[0].lo > x[1].hi); }
Interval igt(Ranges x) { return truth_of(x[0].lo > x[1].hi, x[0].hi <= x[1].lo); }
Interval ige(Ranges x) { return truth_of(x[0].lo >= x[1].hi, x[0].hi < x[1].lo); }

namespace {

Interval unless_nan(Ranges x, Interval truth) {
  return any_everything(x) ? hull(Interval::point(0), truth) : truth;
}

bool disjoint(Ranges x) { return x[0].hi < x[1].lo || x[1].hi < x[0].lo; }
bool same_point(Ranges x) { return x[0].is_point() && x[1].is_point() && x[0].lo == x[1].lo; }

}  // namespace

Interval lt(Ranges x) { return unless_nan(x, ilt(x)); }
Interval le(Ranges x) { return unless_nan(x, ile(x)); }
Interval gt(Ranges x) { return unless_nan(x, igt(x)); }
Interval ge(Ranges x) { return unless_nan(x, ige(x)); }
Interval eq(Ranges x) { return truth_of(same_point(x), disjoint(x)); }
Interval ne(Ranges x) { return truth_of(disjoint(x), same_point(x)); }

// ---- three-valued logic and choice ----

Interval logical_and(Ranges x) {
  const auto [a, b] = std::pair(boolean(x[0]), boolean(x[1]));
  return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
}

Interval logical_or(Ranges x) {
  const auto [a, b] = std::pair(boolean(x[0]), boolean(x[1]));
  return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
}

Interval logical_not(Ranges x) { return {1 - boolean(x[0]).hi, 1 - boolean(x[0]).lo}; }

Interval select(Ranges x) {
  const Interval condition = boolean(x[0]);
  if (condition.is_point()) return condition.lo == 1 ? x[1] : x[2];
  return hull(x[1], x[2]);
}

}  // namespace attnfuse::range
