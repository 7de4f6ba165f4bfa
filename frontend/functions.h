// Functions of the expression language.
#pragma once

#include <span>
#include <string_view>

#include "frontend/value.h"

namespace attnfuse {

struct Function {
  std::string_view name;
  std::string_view operands;  // a letter each: n number (i32 or f32), i i32, b boolean, a any, s boolean
                              // or number like the operand before
  Value (*apply)(std::span<const Value> x);
};
std::span<const Function> functions();
const Function* find_function(std::string_view name);

}  // namespace attnfuse
