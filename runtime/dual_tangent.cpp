#include <cmath>
#include <numbers>

#include "runtime/dual_row.h"

namespace attnfuse {
namespace {

// What does not change counts for nothing, however steep the operation is.
double times(double tangent, double slope) { return tangent == 0 ? 0 : tangent * slope; }

}  // namespace

double tangent(ScalarOp op, std::span<const double> x, std::span<const double> t) {
  switch (op) {
    case ScalarOp::add:
      return t[0] + t[1];
    case ScalarOp::sub:
      return t[0] - t[1];
    case ScalarOp::mul:
      return times(t[0], x[1]) + times(t[1], x[0]);
    case ScalarOp::div:
      return times(t[0], 1 / x[1]) - times(t[1], x[0] / (x[1] * x[1]));
    case ScalarOp::neg:
      return -t[0];
    case ScalarOp::abs:
      return x[0] > 0 ? t[0] : x[0] < 0 ? -t[0] : 0;
    case ScalarOp::min:
      return x[0] <= x[1] ? t[0] : t[1];
    case ScalarOp::max:
      return x[0] >= x[1] ? t[0] : t[1];
    case ScalarOp::exp:
      return times(t[0], std::exp(x[0]));
    case ScalarOp::exp2:
      return times(t[0], std::numbers::ln2 * std::exp2(x[0]));
    case ScalarOp::log:
      return times(t[0], 1 / x[0]);
    case ScalarOp::log2:
      return times(t[0], 1 / (x[0] * std::numbers::ln2));
    case ScalarOp::sqrt:
      return times(t[0], 0.5 / std::sqrt(x[0]));
    case ScalarOp::rsqrt:
      return times(t[0], -0.5 * std::pow(x[0], -1.5));
    case ScalarOp::tanh:
      return times(t[0], 1 / (std::cosh(x[0]) * std::cosh(x[0])));
    case ScalarOp::sin:
      return times(t[0], std::cos(x[0]));
    case ScalarOp::cos:
      return times(t[0], -std::sin(x[0]));
    case ScalarOp::select:
      return x[0] != 0 ? t[1] : t[2];
    // Steps: no change almost everywhere.
    case ScalarOp::floor:
    case ScalarOp::iadd:
    case ScalarOp::isub:
    case ScalarOp::imul:
    case ScalarOp::idiv:
    case ScalarOp::imod:
    case ScalarOp::ineg:
    case ScalarOp::imin:
    case ScalarOp::imax:
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor:
    case ScalarOp::bit_not:
    case ScalarOp::shift_left:
    case ScalarOp::shift_right:
    case ScalarOp::philox:
    case ScalarOp::lt:
    case ScalarOp::le:
    case ScalarOp::gt:
    case ScalarOp::ge:
    case ScalarOp::eq:
    case ScalarOp::ne:
    case ScalarOp::ilt:
    case ScalarOp::ile:
    case ScalarOp::igt:
    case ScalarOp::ige:
    case ScalarOp::ieq:
    case ScalarOp::ine:
    case ScalarOp::logical_and:
    case ScalarOp::logical_or:
    case ScalarOp::logical_not:
    case ScalarOp::iselect:
    case ScalarOp::to_f32:
    case ScalarOp::to_i32:
    case ScalarOp::bool_to_f32:
      return 0;
  }
  return 0;
}

}  // namespace attnfuse
