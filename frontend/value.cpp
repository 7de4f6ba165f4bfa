#include "frontend/value.h"

#include <vector>

namespace attnfuse {
namespace {

// The operation for two operands that meet as i32 or, when either is not, as f32.
Value arithmetic(ScalarOp real, ScalarOp integer, const Value& a, const Value& b) {
  if (a.type() == ValueType::i32 && b.type() == ValueType::i32) return apply(integer, {a, b});
  return apply(real, {to_f32(a), to_f32(b)});
}

}  // namespace

Value Value::constant(double value, ValueType type) {
  Value result(value);
  result.type_ = type;
  return result;
}

NodeId Value::node(Emitter& emitter) const {
  if (!is_constant()) return node_;
  return emitter.graph.add_like({Constant{constant_}, type_, {}, emitter.where}, {});
}

Value apply(ScalarOp op, std::initializer_list<Value> operands) {
  const ScalarOpInfo& row = info(op);
  ATTNFUSE_CHECK(int(operands.size()) == row.arity, "an operation has the wrong number of operands");
  Emitter* emitter = nullptr;
  std::vector<double> constants;
  for (const Value& operand : operands) {
    if (operand.emitter()) emitter = operand.emitter();
    constants.push_back(operand.constant());
  }
  if (!emitter) return Value::constant(row.value(constants), row.result);
  std::vector<NodeId> nodes;
  for (const Value& operand : operands) nodes.push_back(operand.node(*emitter));
  return {*emitter, emitter->graph.add(Apply{op}, nodes, emitter->where)};
}

Value to_f32(const Value& x) {
  switch (x.type()) {
    case ValueType::f32:
      return x;
    case ValueType::i32:
      return apply(ScalarOp::to_f32, {x});
    case ValueType::boolean:
      return apply(ScalarOp::bool_to_f32, {x});
  }
  ATTNFUSE_CHECK(false, "not a type");
}

Value to_i32(const Value& x) { return x.type() == ValueType::i32 ? x : apply(ScalarOp::to_i32, {to_f32(x)}); }

Value operator+(const Value& a, const Value& b) { return arithmetic(ScalarOp::add, ScalarOp::iadd, a, b); }
Value operator-(const Value& a, const Value& b) { return arithmetic(ScalarOp::sub, ScalarOp::isub, a, b); }
Value operator*(const Value& a, const Value& b) { return arithmetic(ScalarOp::mul, ScalarOp::imul, a, b); }
Value operator/(const Value& a, const Value& b) { return apply(ScalarOp::div, {to_f32(a), to_f32(b)}); }
Value operator-(const Value& a) {
  return apply(a.type() == ValueType::i32 ? ScalarOp::ineg : ScalarOp::neg, {a});
}
Value floor_div(const Value& a, const Value& b) { return apply(ScalarOp::idiv, {a, b}); }
Value mod(const Value& a, const Value& b) { return apply(ScalarOp::imod, {a, b}); }
Value operator<(const Value& a, const Value& b) { return arithmetic(ScalarOp::lt, ScalarOp::ilt, a, b); }
Value operator<=(const Value& a, const Value& b) { return arithmetic(ScalarOp::le, ScalarOp::ile, a, b); }
Value operator>(const Value& a, const Value& b) { return arithmetic(ScalarOp::gt, ScalarOp::igt, a, b); }
Value operator>=(const Value& a, const Value& b) { return arithmetic(ScalarOp::ge, ScalarOp::ige, a, b); }
Value operator==(const Value& a, const Value& b) { return arithmetic(ScalarOp::eq, ScalarOp::ieq, a, b); }
Value operator!=(const Value& a, const Value& b) { return arithmetic(ScalarOp::ne, ScalarOp::ine, a, b); }
Value logical_and(const Value& a, const Value& b) { return apply(ScalarOp::logical_and, {a, b}); }
Value logical_or(const Value& a, const Value& b) { return apply(ScalarOp::logical_or, {a, b}); }
Value logical_not(const Value& a) { return apply(ScalarOp::logical_not, {a}); }
Value min(const Value& a, const Value& b) { return arithmetic(ScalarOp::min, ScalarOp::imin, a, b); }
Value max(const Value& a, const Value& b) { return arithmetic(ScalarOp::max, ScalarOp::imax, a, b); }
Value clamp(const Value& x, const Value& low, const Value& high) { return min(max(x, low), high); }
Value abs(const Value& x) { return x.type() == ValueType::i32 ? max(x, -x) : apply(ScalarOp::abs, {x}); }

Value select(const Value& condition, const Value& if_true, const Value& if_false) {
  if (if_true.type() == ValueType::boolean && if_false.type() == ValueType::boolean) {
    const Value chosen = logical_and(condition, if_true);
    const Value otherwise = logical_and(logical_not(condition), if_false);
    return logical_or(chosen, otherwise);
  }
  // A choice made at compile time still promotes, so that the type does not depend on which it is.
  const bool integer = if_true.type() == ValueType::i32 && if_false.type() == ValueType::i32;
  const Value a = integer ? if_true : to_f32(if_true);
  const Value b = integer ? if_false : to_f32(if_false);
  if (condition.is_constant()) return condition.constant() != 0 ? a : b;
  return apply(integer ? ScalarOp::iselect : ScalarOp::select, {condition, a, b});
}

Value floor(const Value& x) { return apply(ScalarOp::floor, {to_f32(x)}); }
Value exp(const Value& x) { return apply(ScalarOp::exp, {to_f32(x)}); }
Value log(const Value& x) { return apply(ScalarOp::log, {to_f32(x)}); }
Value log2(const Value& x) { return apply(ScalarOp::log2, {to_f32(x)}); }
Value rsqrt(const Value& x) { return apply(ScalarOp::rsqrt, {to_f32(x)}); }
Value exp2(const Value& x) { return apply(ScalarOp::exp2, {to_f32(x)}); }
Value tanh(const Value& x) { return apply(ScalarOp::tanh, {to_f32(x)}); }
Value sin(const Value& x) { return apply(ScalarOp::sin, {to_f32(x)}); }
Value cos(const Value& x) { return apply(ScalarOp::cos, {to_f32(x)}); }

}  // namespace attnfuse
