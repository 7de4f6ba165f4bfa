#include "ir/scalar_op.h"

#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr unsigned kSeed = 20240607;

using Values = std::span<const double>;

// Python's // and % on integers, by counting.
std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  std::int64_t quotient = a / b;
  return quotient * b == a || (a < 0) == (b < 0) ? quotient : quotient - 1;
}

// The 32 digits of a two's complement number, least first, and back.
std::vector<int> digits_of(double value) {
  double rest = value < 0 ? value + 4294967296.0 : value;
  std::vector<int> digits;
  for (int k = 0; k < 32; ++k) {
    digits.push_back(std::fmod(rest, 2) == 1 ? 1 : 0);
    rest = std::floor(rest / 2);
  }
  return digits;
}
double number_of(const std::vector<int>& digits) {
  double value = -2147483648.0 * digits[31];
  for (int k = 0; k < 31; ++k) value += std::ldexp(digits[std::size_t(k)], k);
  return value;
}
double by_digit(double a, double b, int (*digit)(int, int)) {
  std::vector<int> result = digits_of(a);
  const std::vector<int> other = digits_of(b);
  for (std::size_t k = 0; k < 32; ++k) result[k] = digit(result[k], other[k]);
  return number_of(result);
}
// Digits moved up (positive) or down by n modulo 32; above the top stands `above`.
double moved(double a, double n, int direction) {
  const std::vector<int> from = digits_of(a);
  std::vector<int> to(32, direction > 0 ? 0 : from[31]);
  const int by = direction * int(((std::int64_t(n) % 32) + 32) % 32);
  for (int k = 0; k < 32; ++k)
    if (k + by >= 0 && k + by < 32) to[std::size_t(k + by)] = from[std::size_t(k)];
  return number_of(to);
}

// Philox4x32-10 on products of halves of 16 bits, as its paper describes it.
double word_of(double value) { return value < 0 ? value + 4294967296.0 : value; }
std::array<double, 4> philox_by_halves(std::array<double, 4> counter, std::array<double, 2> key) {
  const auto product = [](double a, double b) {
    const double half = 65536, a1 = std::floor(a / half), a0 = a - a1 * half, b1 = std::floor(b / half),
                 b0 = b - b1 * half;
    const double middle = a1 * b0 + a0 * b1 + std::floor(a0 * b0 / half);
    const double low = std::fmod(middle, half) * half + std::fmod(a0 * b0, half);
    return std::pair{a1 * b1 + std::floor(middle / half), low};
  };
  const auto differing = [](double a, double b) {
    return word_of(by_digit(a, b, [](int x, int y) { return x == y ? 0 : 1; }));
  };
  for (double& word : counter) word = word_of(word);
  for (double& word : key) word = word_of(word);
  for (int round = 0; round < 10; ++round) {
    const auto [high0, low0] = product(3528531795.0, counter[0]);
    const auto [high1, low1] = product(3449720151.0, counter[2]);
    counter = {differing(differing(high1, counter[1]), key[0]), low1,
               differing(differing(high0, counter[3]), key[1]), low0};
    key = {std::fmod(key[0] + 2654435769.0, 4294967296.0), std::fmod(key[1] + 3144134277.0, 4294967296.0)};
  }
  return counter;
}
double fraction_of(double word) { return std::floor(word / 256) / 16777216.0; }

// What each operation computes and where it is tried, written down a second time.
struct Expected {
  double (*value)(Values x);
  double lo = -4, hi = 4;  // where it is differentiable, apart from ties
};

Expected expected(ScalarOp op) {
  switch (op) {
    case ScalarOp::add:
    case ScalarOp::iadd:
      return {[](Values x) { return std::plus<>{}(x[0], x[1]); }};
    case ScalarOp::sub:
    case ScalarOp::isub:
      return {[](Values x) { return std::minus<>{}(x[0], x[1]); }};
    case ScalarOp::mul:
    case ScalarOp::imul:
      return {[](Values x) { return std::multiplies<>{}(x[0], x[1]); }};
    case ScalarOp::div:
      return {[](Values x) { return std::divides<>{}(x[0], x[1]); }, 0.5, 3};
    case ScalarOp::neg:
    case ScalarOp::ineg:
      return {[](Values x) { return 0 - x[0]; }};
    case ScalarOp::abs:
      return {[](Values x) { return std::copysign(x[0], 1.0); }};
    case ScalarOp::min:
    case ScalarOp::imin:
      return {[](Values x) { return x[1] < x[0] ? x[1] : x[0]; }};
    case ScalarOp::max:
    case ScalarOp::imax:
      return {[](Values x) { return x[0] < x[1] ? x[1] : x[0]; }};
    case ScalarOp::floor:
    case ScalarOp::to_i32:
      return {[](Values x) { return -std::ceil(-x[0]); }};
    case ScalarOp::exp:
      return {[](Values x) { return std::expm1(x[0]) + 1; }};
    case ScalarOp::exp2:
      return {[](Values x) { return std::pow(2.0, x[0]); }};
    case ScalarOp::log:
      return {[](Values x) { return std::log1p(x[0] - 1); }, 0.5, 9};
    case ScalarOp::log2:
      return {[](Values x) { return std::log10(x[0]) / std::log10(2.0); }, 0.5, 9};
    case ScalarOp::sqrt:
      return {[](Values x) { return std::hypot(std::pow(x[0], 0.5), 0.0); }, 0.5, 9};
    case ScalarOp::rsqrt:
      return {[](Values x) { return std::pow(x[0], -0.5); }, 0.5, 9};
    case ScalarOp::tanh:
      return {[](Values x) { return std::expm1(2 * x[0]) / (std::exp(2 * x[0]) + 1); }};
    case ScalarOp::sin:
      return {[](Values x) { return 2 * std::sin(x[0] / 2) * std::cos(x[0] / 2); }};
    case ScalarOp::cos:
      return {[](Values x) { return 1 - 2 * std::pow(std::sin(x[0] / 2), 2); }};
    case ScalarOp::idiv:
      return {[](Values x) {
        return x[1] == 0 ? 0.0 : double(floor_divided(std::int64_t(x[0]), std::int64_t(x[1])));
      }};
    case ScalarOp::imod:
      return {[](Values x) {
        const auto [a, b] = std::pair(std::int64_t(x[0]), std::int64_t(x[1]));
        return b == 0 ? 0.0 : double(((a % b) + b) % b);
      }};
    case ScalarOp::bit_and:
      return {[](Values x) { return by_digit(x[0], x[1], [](int a, int b) { return a * b; }); }};
    case ScalarOp::bit_or:
      return {[](Values x) { return by_digit(x[0], x[1], [](int a, int b) { return a + b > 0 ? 1 : 0; }); }};
    case ScalarOp::bit_xor:
      return {[](Values x) { return by_digit(x[0], x[1], [](int a, int b) { return a == b ? 0 : 1; }); }};
    case ScalarOp::bit_not:
      return {[](Values x) { return by_digit(x[0], 0, [](int a, int) { return 1 - a; }); }};
    case ScalarOp::shift_left:
      return {[](Values x) { return moved(x[0], x[1], 1); }};
    case ScalarOp::shift_right:
      return {[](Values x) { return moved(x[0], x[1], -1); }};
    case ScalarOp::philox:
      return {[](Values x) {
        const double four = std::floor(x[3] / 4);
        const auto words = philox_by_halves({four, x[2], x[1], 0}, {x[0], 0});
        return fraction_of(words[std::size_t(x[3] - 4 * four)]);
      }};
    case ScalarOp::lt:
    case ScalarOp::ilt:
      return {[](Values x) { return double(std::less<>{}(x[0], x[1])); }};
    case ScalarOp::le:
    case ScalarOp::ile:
      return {[](Values x) { return double(std::less_equal<>{}(x[0], x[1])); }};
    case ScalarOp::gt:
    case ScalarOp::igt:
      return {[](Values x) { return double(std::greater<>{}(x[0], x[1])); }};
    case ScalarOp::ge:
    case ScalarOp::ige:
      return {[](Values x) { return double(std::greater_equal<>{}(x[0], x[1])); }};
    case ScalarOp::eq:
    case ScalarOp::ieq:
      return {[](Values x) { return double(std::equal_to<>{}(x[0], x[1])); }};
    case ScalarOp::ne:
    case ScalarOp::ine:
      return {[](Values x) { return double(std::not_equal_to<>{}(x[0], x[1])); }};
    case ScalarOp::logical_and:
      return {[](Values x) { return x[0] * x[1]; }};
    case ScalarOp::logical_or:
      return {[](Values x) { return x[0] + x[1] > 0.5 ? 1.0 : 0.0; }};
    case ScalarOp::logical_not:
      return {[](Values x) { return 1 - x[0]; }};
    case ScalarOp::select:
    case ScalarOp::iselect:
      return {[](Values x) { return x[0] * x[1] + (1 - x[0]) * x[2]; }};
    case ScalarOp::to_f32:
    case ScalarOp::bool_to_f32:
      return {[](Values x) { return x[0]; }};
  }
  return {};
}

class Random {
 public:
  double real(double lo, double hi) { return std::uniform_real_distribution(lo, hi)(engine_); }
  int integer(int lo, int hi) { return std::uniform_int_distribution(lo, hi)(engine_); }

  double operand(ValueType type, double lo, double hi) {
    if (type == ValueType::boolean) return integer(0, 1);
    return type == ValueType::i32 ? integer(-9, 9) : real(lo, hi);
  }

  // Points, short and long intervals, and intervals without end on one or both sides.
  Interval interval(ValueType type) {
    if (type == ValueType::boolean)
      return std::vector<Interval>{{0, 0}, {1, 1}, {0, 1}}[std::size_t(integer(0, 2))];
    double lo = type == ValueType::i32 ? integer(-7, 7) : integer(0, 3) == 0 ? integer(-2, 2) : real(-6, 6);
    double hi = lo;
    if (integer(0, 3) != 0) hi += type == ValueType::i32 ? integer(0, 9) : real(0, 8);
    if (integer(0, 7) == 0) lo = -kInfinity;
    if (integer(0, 7) == 0) hi = kInfinity;
    return {lo, hi};
  }

  // A member, ends more often than others. Infinite ends of an f32 interval are members.
  double member(Interval range, ValueType type) {
    const bool whole = type != ValueType::f32;
    const int pick = integer(0, 4);
    if (pick == 0 && !(whole && std::isinf(range.lo))) return range.lo;
    if (pick == 1 && !(whole && std::isinf(range.hi))) return range.hi;
    if (pick == 2 && range.contains(0)) return integer(0, 1) == 0 ? 0.0 : -0.0;
    const double lo = std::isinf(range.lo) ? std::min(range.hi, 0.0) - real(0, 1e3) : range.lo;
    const double hi = std::isinf(range.hi) ? std::max(range.lo, 0.0) + real(0, 1e3) : range.hi;
    if (std::isinf(lo) || std::isinf(hi)) return std::isinf(lo) ? range.hi : range.lo;
    return whole ? integer(int(std::ceil(lo)), int(std::floor(hi))) : std::clamp(real(lo, hi), lo, hi);
  }

 private:
  std::mt19937 engine_{kSeed};
};

std::string text(const ScalarOpInfo& op, Values x) {
  std::string result = std::string(op.name) + "(";
  for (double value : x) result += std::to_string(value) + " ";
  return result + ") seed " + std::to_string(kSeed);
}

TEST_CASE("every operation computes what an independent formula does") {
  Random random;
  for (const ScalarOpInfo& op : scalar_ops()) {
    const Expected wanted = expected(op.op);
    for (int trial = 0; trial < 200; ++trial) {
      double x[kMaxArity];
      for (int k = 0; k < op.arity; ++k) x[k] = random.operand(op.operand[k], wanted.lo, wanted.hi);
      const Values operands(x, std::size_t(op.arity));
      CAPTURE(text(op, operands));
      CHECK(op.value(operands) == doctest::Approx(wanted.value(operands)).epsilon(1e-12));
    }
  }
}

TEST_CASE("philox gives the words that its authors publish") {
  using Words = std::array<double, 4>;
  CHECK(philox_by_halves({0, 0, 0, 0}, {0, 0}) ==
        Words{double(0x6627e8d5u), double(0xe169c58du), double(0xbc57ac4cu), double(0x9b00dbd8u)});
  CHECK(philox_by_halves({-1, -1, -1, -1}, {-1, -1}) ==
        Words{double(0x408f276du), double(0x41c83b0eu), double(0xa20bc7c6u), double(0x6d5451fdu)});
  CHECK(philox_by_halves({double(0x243f6a88u), double(0x85a308d3u), double(0x13198a2eu), double(0x03707344u)},
                         {double(0xa4093822u), double(0x299f31d0u)}) ==
        Words{double(0xd16cfe09u), double(0x94fdccebu), double(0x5001e420u), double(0x24126ea1u)});
  const double words[] = {0x6627e8, 0xe169c5, 0xbc57ac, 0x9b00db};
  for (int j = 0; j < 4; ++j) {
    const std::array<double, 4> operands{0, 0, 0, double(j)};
    CHECK(info(ScalarOp::philox).value(operands) == words[j] / 16777216.0);
  }
}

TEST_CASE("every gradient agrees with a finite difference") {
  Random random;
  for (const ScalarOpInfo& op : scalar_ops()) {
    bool takes_f32 = false;
    for (int k = 0; k < op.arity; ++k) takes_f32 = takes_f32 || op.operand[k] == ValueType::f32;
    CAPTURE(op.name);
    REQUIRE((op.vjp != nullptr) == takes_f32);
    if (!op.vjp) continue;

    Graph graph;
    std::vector<NodeId> operands;
    for (int k = 0; k < op.arity; ++k)
      operands.push_back(graph.variable("x" + std::to_string(k), op.operand[k]));
    const NodeId result = graph.add(Apply{op.op}, operands);
    const NodeId grad = graph.variable("grad", ValueType::f32);
    const std::vector<NodeId> gradients = op.vjp(graph, operands, result, grad);
    REQUIRE(gradients.size() == operands.size());

    const Expected domain = expected(op.op);
    for (int trial = 0; trial < 100; ++trial) {
      double x[kMaxArity] = {};
      for (int k = 0; k < op.arity; ++k) x[k] = random.operand(op.operand[k], domain.lo, domain.hi);
      const Values point(x, std::size_t(op.arity));
      const double upstream = random.real(-2, 2);
      EvaluateContext context;
      context.leaf = [&](NodeId id) { return id == grad ? upstream : x[id.value]; };
      for (std::size_t k = 0; k < operands.size(); ++k) {
        CAPTURE(text(op, point));
        CAPTURE(k);
        CHECK(gradients[k].valid() == (op.operand[k] == ValueType::f32));
        if (!gradients[k].valid()) continue;
        const double step = 1e-5;
        double up[3] = {x[0], x[1], x[2]}, down[3] = {x[0], x[1], x[2]};
        up[k] += step;
        down[k] -= step;
        const double slope = (op.value({up, point.size()}) - op.value({down, point.size()})) / (2 * step);
        CHECK(graph.node(gradients[k]).type == ValueType::f32);
        CHECK(evaluate(graph, gradients[k], context) ==
              doctest::Approx(slope * upstream).epsilon(1e-6).scale(1));
      }
    }
  }
}

// NaN stands in everything(), and only there.
bool holds(Interval range, double value) {
  return std::isnan(value) ? range.is_everything() : range.contains(value);
}

TEST_CASE("every range holds every value, infinite and empty-width operands included") {
  Random random;
  for (const ScalarOpInfo& op : scalar_ops()) {
    for (int trial = 0; trial < 4000; ++trial) {
      Interval ranges[kMaxArity];
      for (int k = 0; k < op.arity; ++k) ranges[k] = random.interval(op.operand[k]);
      const Interval range = op.range({ranges, std::size_t(op.arity)});
      for (int sample = 0; sample < 6; ++sample) {
        double x[kMaxArity];
        for (int k = 0; k < op.arity; ++k) x[k] = random.member(ranges[k], op.operand[k]);
        const Values operands(x, std::size_t(op.arity));
        const double value = op.value(operands);
        if (holds(range, value)) continue;
        CAPTURE(text(op, operands));
        CAPTURE(value);
        CAPTURE(range.lo);
        CAPTURE(range.hi);
        REQUIRE(holds(range, value));
      }
    }
  }
}

TEST_CASE("NaN operands are covered by a range from everything") {
  for (const ScalarOpInfo& op : scalar_ops())
    for (int position = 0; position < op.arity; ++position) {
      if (op.operand[position] != ValueType::f32) continue;
      for (double other : {-kInfinity, -1.0, 0.0, 1.0, kInfinity}) {
        double x[kMaxArity] = {1, other, other};
        if (op.operand[0] == ValueType::f32) x[0] = other;
        if (op.op == ScalarOp::select) x[0] = position == 1 ? 1 : 0;
        Interval ranges[3] = {Interval::point(x[0]), Interval::point(x[1]), Interval::point(x[2])};
        x[position] = std::nan("");
        ranges[position] = Interval::everything();
        const auto arity = std::size_t(op.arity);
        CAPTURE(text(op, {x, arity}));
        CHECK(holds(op.range({ranges, arity}), op.value({x, arity})));
      }
    }
}

TEST_CASE("ranges decide what masks need decided") {
  const auto range = [](ScalarOp op, std::initializer_list<Interval> x) {
    return info(op).range({x.begin(), x.size()});
  };
  const Interval always{1, 1}, never{0, 0}, unknown{0, 1};
  CHECK(range(ScalarOp::ige, {{64, 127}, {0, 63}}) == always);
  CHECK(range(ScalarOp::ige, {{64, 127}, {128, 191}}) == never);
  CHECK(range(ScalarOp::ige, {{64, 127}, {64, 127}}) == unknown);
  CHECK(range(ScalarOp::isub, {{64, 127}, {0, 63}}) == Interval{1, 127});
  CHECK(range(ScalarOp::idiv, {{0, 63}, {16, 16}}) == Interval{0, 3});
  CHECK(range(ScalarOp::idiv, {{-1, 1}, {2, kInfinity}}) == Interval{-1, 0});
  CHECK(range(ScalarOp::imod, {{32, 47}, {16, 16}}) == Interval{0, 15});
  CHECK(range(ScalarOp::imod, {{33, 35}, {16, 16}}) == Interval{1, 3});
  CHECK(range(ScalarOp::idiv, {{1, 2}, {0, 3}}) == Interval::everything());
  CHECK(range(ScalarOp::shift_right, {{-32, 63}, {4, 4}}) == Interval{-2, 3});
  CHECK(range(ScalarOp::shift_left, {{-1, 3}, {4, 4}}) == Interval{-16, 48});
  CHECK(range(ScalarOp::bit_and, {{-kInfinity, kInfinity}, {15, 15}}) == Interval{0, 15});
  CHECK(range(ScalarOp::bit_or, {{4, 9}, {2, 3}}) == Interval{4, 15});
  CHECK(range(ScalarOp::logical_and, {unknown, never}) == never);
  CHECK(range(ScalarOp::logical_or, {unknown, always}) == always);
  CHECK(range(ScalarOp::logical_not, {unknown}) == unknown);
  CHECK(range(ScalarOp::iselect, {unknown, {1, 2}, {5, 6}}) == Interval{1, 6});
  CHECK(range(ScalarOp::iselect, {always, {1, 2}, {5, 6}}) == Interval{1, 2});
  CHECK(range(ScalarOp::mul, {{0, 1}, {1, kInfinity}}) == Interval::everything());
  CHECK(range(ScalarOp::mul, {{-1, 2}, {3, 4}}) == Interval{-4, 8});
  CHECK(range(ScalarOp::div, {{1, 2}, {-1, 1}}) == Interval::everything());
}

TEST_CASE("every operation is named once and spelled with all its operands") {
  for (const ScalarOpInfo& op : scalar_ops()) {
    CAPTURE(op.name);
    int same_name = 0;
    for (const ScalarOpInfo& other : scalar_ops()) same_name += other.name == op.name;
    CHECK(same_name == 1);
    CHECK(&info(op.op) == &op);
    CHECK(op.arity >= 1);
    CHECK(op.arity <= kMaxArity);
    for (int k = 0; k < kMaxArity; ++k) {
      const std::string placeholder = "$" + std::to_string(k);
      const bool used = k < op.arity;
      CHECK((op.spelling.find(placeholder) != std::string_view::npos) == used);
      CHECK((op.latex.find(placeholder) != std::string_view::npos) == used);
    }
    CHECK((op.precedence == Precedence::primary) == (op.spelling.find('(') != std::string_view::npos));
  }
}

}  // namespace
}  // namespace attnfuse
