// Term: an expression of the .attn language as a C++ value, built by operators. Used through attention.h.
#pragma once

#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "frontend/spec.h"

namespace attnfuse {

// A number, truth value or predicate. Where i32 meets f32 the result is f32; / is f32, floor_div and % are
// i32.
class Term {
 public:
  template <std::integral Number>
  Term(Number number)
      : expression_(make_number(double(number), true)) {}  // NOLINT(google-explicit-constructor)
  template <std::floating_point Number>
  Term(Number number)
      : expression_(make_number(double(number), false)) {}  // NOLINT(google-explicit-constructor)
  Term(bool truth)
      : expression_(make_name(truth ? "true" : "false")) {}  // NOLINT(google-explicit-constructor)
  explicit Term(Expression expression) : expression_(std::move(expression)) {}

  const Expression& expression() const { return expression_; }

  friend Term operator+(const Term& a, const Term& b) { return operation(Operator::add, {a, b}); }
  friend Term operator-(const Term& a, const Term& b) { return operation(Operator::sub, {a, b}); }
  friend Term operator*(const Term& a, const Term& b) { return operation(Operator::mul, {a, b}); }
  friend Term operator/(const Term& a, const Term& b) { return operation(Operator::div, {a, b}); }
  friend Term operator%(const Term& a, const Term& b) { return operation(Operator::mod, {a, b}); }
  friend Term floor_div(const Term& a, const Term& b) { return operation(Operator::floor_div, {a, b}); }
  friend Term operator-(const Term& a) { return operation(Operator::neg, {a}); }
  friend Term operator<(const Term& a, const Term& b) { return operation(Operator::lt, {a, b}); }
  friend Term operator<=(const Term& a, const Term& b) { return operation(Operator::le, {a, b}); }
  friend Term operator>(const Term& a, const Term& b) { return operation(Operator::gt, {a, b}); }
  friend Term operator>=(const Term& a, const Term& b) { return operation(Operator::ge, {a, b}); }
  friend Term operator==(const Term& a, const Term& b) { return operation(Operator::eq, {a, b}); }
  friend Term operator!=(const Term& a, const Term& b) { return operation(Operator::ne, {a, b}); }
  friend Term operator&&(const Term& a, const Term& b) { return operation(Operator::logical_and, {a, b}); }
  friend Term operator||(const Term& a, const Term& b) { return operation(Operator::logical_or, {a, b}); }
  friend Term operator!(const Term& a) { return operation(Operator::logical_not, {a}); }

  friend Term abs(const Term& x) { return call("abs", {x}); }
  friend Term min(const Term& a, const Term& b) { return call("min", {a, b}); }
  friend Term max(const Term& a, const Term& b) { return call("max", {a, b}); }
  friend Term clamp(const Term& x, const Term& low, const Term& high) {
    return call("clamp", {x, low, high});
  }
  friend Term floor(const Term& x) { return call("floor", {x}); }
  friend Term exp(const Term& x) { return call("exp", {x}); }
  friend Term exp2(const Term& x) { return call("exp2", {x}); }
  friend Term log(const Term& x) { return call("log", {x}); }
  friend Term log2(const Term& x) { return call("log2", {x}); }
  friend Term sqrt(const Term& x) { return call("sqrt", {x}); }
  friend Term rsqrt(const Term& x) { return call("rsqrt", {x}); }
  friend Term tanh(const Term& x) { return call("tanh", {x}); }
  friend Term erf(const Term& x) { return call("erf", {x}); }
  friend Term sin(const Term& x) { return call("sin", {x}); }
  friend Term cos(const Term& x) { return call("cos", {x}); }
  friend Term bit_and(const Term& a, const Term& b) { return call("bit_and", {a, b}); }
  friend Term bit_or(const Term& a, const Term& b) { return call("bit_or", {a, b}); }
  friend Term bit_xor(const Term& a, const Term& b) { return call("bit_xor", {a, b}); }
  friend Term bit_not(const Term& a) { return call("bit_not", {a}); }
  friend Term shift_left(const Term& a, const Term& n) { return call("shift_left", {a, n}); }
  friend Term shift_right(const Term& a, const Term& n) { return call("shift_right", {a, n}); }
  friend Term philox(const Term& seed, const Term& n, const Term& i, const Term& j) {
    return call("philox", {seed, n, i, j});
  }
  friend Term to_f32(const Term& x) { return call("to_f32", {x}); }
  friend Term to_i32(const Term& x) { return call("to_i32", {x}); }
  friend Term select(const Term& condition, const Term& if_true, const Term& if_false) {
    return call("select", {condition, if_true, if_false});
  }

 private:
  static std::vector<Expression> expressions(std::initializer_list<Term> terms) {
    std::vector<Expression> result;
    for (const Term& term : terms) result.push_back(term.expression_);
    return result;
  }
  static Term operation(Operator op, std::initializer_list<Term> operands) {
    return Term(make_operation(op, expressions(operands)));
  }
  static Term call(std::string function, std::initializer_list<Term> operands) {
    return Term(make_call(std::move(function), expressions(operands), {}));
  }

  Expression expression_;
};

// A tensor that a program reads; made by Attention::param. t[h] for one dimension, t(b, i) for any number.
class Captured {
 public:
  explicit Captured(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  Term operator[](const Term& index) const { return (*this)(index); }
  template <std::convertible_to<Term>... Index>
  Term operator()(const Index&... index) const {
    if constexpr (sizeof...(Index) == 0) return Term(make_name(name_));
    return Term(make_gather(name_, {Term(index).expression()...}));
  }

 private:
  std::string name_;
};

// ---- what expressions are made of -----------------------------------------------------------------

inline Term named(std::string name) { return Term(make_name(std::move(name))); }

// What `summand` gives for each number from first up to end, which is not part of it. The name stands in
// text.
template <std::invocable<Term> Function>
Term sum(const std::string& variable, const Term& first, const Term& end, Function summand) {
  const Term body(summand(named(variable)));
  return Term(make_sum(variable, first.expression(), end.expression(), body.expression()));
}

struct SizeTerms {
  Term batch() const { return named("batch"); }
  Term heads() const { return named("heads"); }
  Term kv_heads() const { return named("kv_heads"); }
  Term sq() const { return named("sq"); }
  Term skv() const { return named("skv"); }
  Term head_dim() const { return named("head_dim"); }
  Term v_head_dim() const { return named("v_head_dim"); }
};

// An element of the query or output, and of the key or value (h is the key/value head): the value so far.
struct Query : Term, SizeTerms {
  Query() : Term(make_name("x")) {}
  Term b() const { return named("b"); }
  Term h() const { return named("h"); }
  Term i() const { return named("i"); }
  Term d() const { return named("d"); }
};
struct Key : Term, SizeTerms {
  Key() : Term(make_name("x")) {}
  Term b() const { return named("b"); }
  Term h() const { return named("h"); }
  Term j() const { return named("j"); }
  Term d() const { return named("d"); }
};
// The score, or the weight, of query i and key j: the value so far.
struct Score : Term, SizeTerms {
  Score() : Term(make_name("x")) {}
  Term b() const { return named("b"); }
  Term h() const { return named("h"); }
  Term i() const { return named("i"); }
  Term j() const { return named("j"); }
};
// A query and a key that may see each other.
struct Pair : SizeTerms {
  Term b() const { return named("b"); }
  Term h() const { return named("h"); }
  Term i() const { return named("i"); }
  Term j() const { return named("j"); }
};

}  // namespace attnfuse
