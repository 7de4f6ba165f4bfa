// Reader: gives expressions and block calls their values. Used by expand() alone; mistakes are appended to
// `errors`, and the value is then missing.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/arguments.h"
#include "frontend/catalog.h"
#include "frontend/spec.h"
#include "frontend/value.h"

namespace attnfuse {

// Parts that an expression may have when its sums are written out.
inline constexpr std::int64_t kMaxSummedNodes = 16384;

class Reader {
 public:
  // x: the value so far, where there is one.
  Reader(Emitter& emitter, Diagnostics& errors, Stage stage, std::optional<Value> x)
      : emitter_(emitter), errors_(errors), stage_(stage), x_(x) {}

  // A whole line: one block, or an expression. `mask` is what normalize blocks combine with x.
  std::optional<Value> line(const Expression& expression, const Value& mask = 1);

 private:
  using Maybe = std::optional<Value>;

  // reader.cpp: expressions.
  Maybe read(const Expression& expression);
  Maybe read_name(const Expression& expression);
  Maybe read_operation(const Expression& expression);
  Maybe read_call(const Expression& expression);
  Maybe read_gather(const Expression& expression);
  Maybe read_sum(const Expression& expression);
  std::optional<int> read_end(const Expression& sum, const Expression& end);
  Maybe checked(const Expression& expression, const Value& value);  // a folded constant must be representable
  Maybe unknown(const Expression& expression);
  std::optional<Axis> index_axis(std::string_view name) const;
  static const Block* block_named(const Expression& expression);

  // bind.cpp: blocks and their arguments.
  Maybe expand_block(const Block& block, const Expression& call, const Value& mask);
  std::optional<Arguments> bind(std::span<const Parameter> parameters, const Expression& call);
  std::optional<Arguments::Argument> bind_argument(const Parameter& parameter, const Expression& owner,
                                                   const Expression& argument);
  std::optional<Arguments::Argument> bind_choice(const Parameter& parameter, const Expression& argument);
  Maybe bind_number(const Parameter& parameter, const Expression& owner, const Expression& argument);
  Maybe bind_per_head(const Parameter& parameter, const Expression& owner, const Expression& argument);
  std::optional<Arguments::Argument> bind_tensor(const Parameter& parameter, const Expression& owner,
                                                 const Expression& argument);
  Maybe read_without_x(const Expression& argument);

  std::nullopt_t fail(std::string code, const Expression& at, std::string message, std::string fix = {}) {
    errors_.push_back({std::move(code), std::move(message), at.where, std::move(fix)});
    return std::nullopt;
  }

  Emitter& emitter_;
  Diagnostics& errors_;
  Stage stage_;
  std::optional<Value> x_;
  bool used_x_ = false;
  struct Variable {
    std::string name;
    int value;
  };
  std::vector<Variable> variables_;  // of the sums around
  std::int64_t repeats_ = 1;         // of what stands in these sums
};

// Expressions are quoted in messages, long ones shortened.
std::string quoted(const Expression& expression);

}  // namespace attnfuse
