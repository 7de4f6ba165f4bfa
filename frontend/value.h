// Value: what blocks compute with. Arithmetic on values appends nodes to a graph, promotes i32 to f32 where
// the two meet, and folds constants in double precision, so that a block's code reads like its formula.
#pragma once

#include <initializer_list>

#include "ir/graph.h"

namespace attnfuse {

// Where nodes go, and the place in the source they stand for. Outlives the values made with it.
struct Emitter {
  Graph& graph;
  Where where = {};
};

class Value {
 public:
  Value(double constant) : constant_(constant) {}                      // NOLINT(google-explicit-constructor)
  Value(int constant) : type_(ValueType::i32), constant_(constant) {}  // NOLINT(google-explicit-constructor)
  Value(Emitter& emitter, NodeId node)
      : type_(emitter.graph.node(node).type), emitter_(&emitter), node_(node) {}
  static Value constant(double value, ValueType type);

  ValueType type() const { return type_; }
  bool is_constant() const { return emitter_ == nullptr; }
  double constant() const { return constant_; }
  Emitter* emitter() const { return emitter_; }
  // The node that holds the value; a constant becomes one.
  NodeId node(Emitter& emitter) const;

 private:
  ValueType type_ = ValueType::f32;
  double constant_ = 0;
  Emitter* emitter_ = nullptr;  // of a node
  NodeId node_;
};

// The operation on operands of its own types; folded when all are constants.
Value apply(ScalarOp op, std::initializer_list<Value> operands);

Value to_f32(const Value& x);  // from any type
Value to_i32(const Value& x);  // rounds toward minus infinity

Value operator+(const Value& a, const Value& b);
Value operator-(const Value& a, const Value& b);
Value operator*(const Value& a, const Value& b);
Value operator/(const Value& a, const Value& b);  // always f32
Value operator-(const Value& a);
Value floor_div(const Value& a, const Value& b);  // i32
Value mod(const Value& a, const Value& b);        // i32
Value operator<(const Value& a, const Value& b);
Value operator<=(const Value& a, const Value& b);
Value operator>(const Value& a, const Value& b);
Value operator>=(const Value& a, const Value& b);
Value operator==(const Value& a, const Value& b);
Value operator!=(const Value& a, const Value& b);
Value logical_and(const Value& a, const Value& b);
Value logical_or(const Value& a, const Value& b);
Value logical_not(const Value& a);
Value min(const Value& a, const Value& b);
Value max(const Value& a, const Value& b);
Value clamp(const Value& x, const Value& low, const Value& high);
Value abs(const Value& x);
Value select(const Value& condition, const Value& if_true, const Value& if_false);

// f32 functions of one operand.
Value floor(const Value& x);
Value exp(const Value& x);
Value log(const Value& x);
Value log2(const Value& x);
Value rsqrt(const Value& x);
Value exp2(const Value& x);
Value tanh(const Value& x);
Value sin(const Value& x);
Value cos(const Value& x);

}  // namespace attnfuse
