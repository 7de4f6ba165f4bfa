// Call: a block call as the C++ builder's functions write it. Used by them alone.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "frontend/attention.h"

namespace attnfuse {

// Arguments of a block, in the order given.
class Call {
 public:
  explicit Call(std::string block) : block_(std::move(block)) {}

  Call& positional(Expression value) { return named({}, std::move(value)); }
  Call& named(std::string name, Expression value) {
    names_.push_back(std::move(name));
    values_.push_back(std::move(value));
    return *this;
  }
  // A block without arguments is written without brackets.
  Expression expression() const {
    return values_.empty() ? make_name(block_) : make_call(block_, values_, names_);
  }

 private:
  std::string block_;
  std::vector<Expression> values_;
  std::vector<std::string> names_;
};

// Whole numbers as integers: they read better, and blocks take either.
inline Expression argument(double value) {
  return make_number(value, value == std::floor(value) && std::fabs(value) <= INT32_MAX);
}

inline Expression argument(const Term& term) { return term.expression(); }
inline Expression argument(const Captured& tensor) { return make_name(tensor.name()); }

}  // namespace attnfuse
