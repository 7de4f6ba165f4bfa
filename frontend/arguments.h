// Arguments of one block call, checked against the block's parameters.
#pragma once

#include <optional>
#include <vector>

#include "frontend/catalog.h"

namespace attnfuse {

class Arguments {
 public:
  struct Argument {
    std::optional<Value> value;  // of a number, integer, index or per_head that is given or defaulted
    std::size_t choice = 0;
    std::vector<Argument> nested;  // of the choice, by its parameters
    TensorId tensor = {};
  };

  Arguments(std::span<const Parameter> parameters, std::vector<Argument> values)
      : parameters_(parameters), values_(std::move(values)) {}

  bool has(std::string_view name) const { return at(name).value.has_value() || at(name).tensor.valid(); }
  Value value(std::string_view name) const { return *at(name).value; }
  double number(std::string_view name) const { return value(name).constant(); }
  int integer(std::string_view name) const { return int(number(name)); }
  std::size_t choice(std::string_view name) const { return at(name).choice; }
  TensorId tensor(std::string_view name) const { return at(name).tensor; }
  const std::vector<Argument>& values() const { return values_; }
  // Of the chosen word.
  Arguments nested(std::string_view name) const;

 private:
  const Argument& at(std::string_view name) const { return values_[position(name)]; }
  std::size_t position(std::string_view name) const;

  std::span<const Parameter> parameters_;
  std::vector<Argument> values_;
};

}  // namespace attnfuse
