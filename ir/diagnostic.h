// Diagnostics and Result: how everything a user can get wrong is reported.
// A user's mistake is a value (Result<T> holding Diagnostics); a mistake of ours trips ATTNFUSE_CHECK.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace attnfuse {

// A place in a source text or in C++ code. line and column count from 1; 0 means unknown.
struct Where {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;  // characters to underline
};

// The C++ call site, for builder diagnostics.
inline Where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line, 0, 0};
}

// One mistake: a stable code ("syntax.unexpected-token"), a message that names the value and the
// limit, the place, and what to do about it.
struct Diagnostic {
  std::string code;
  std::string message;
  Where where;
  std::string fix;  // empty when the message already says it
};

using Diagnostics = std::vector<Diagnostic>;

// "file:line:column: error[code]: message", then the source line with a caret, then "fix: ...".
// `source` is the text the diagnostics point into; empty when there is none.
std::string render(const Diagnostic& diagnostic, std::string_view source = {});
std::string render(const Diagnostics& diagnostics, std::string_view source = {});

// Our own mistake. Reported with file and line, never caught except at the top of a program.
struct InternalError : std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line, const std::string& message);

#define ATTNFUSE_CHECK(condition, message)                                             \
  do {                                                                                 \
    if (!(condition)) ::attnfuse::fail_check(#condition, __FILE__, __LINE__, message); \
  } while (false)

// A value, or the diagnostics that say why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor): a value is a result
  Result(Diagnostics diagnostics)
      : state_(std::move(diagnostics)) {}  // NOLINT(google-explicit-constructor): so is a failure
  Result(Diagnostic diagnostic)
      : state_(Diagnostics{std::move(diagnostic)}) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }

  const T& value() const& {
    ATTNFUSE_CHECK(ok(), "value() of a failed result: " + render(errors()));
    return std::get<T>(state_);
  }
  T&& value() && {
    ATTNFUSE_CHECK(ok(), "value() of a failed result: " + render(errors()));
    return std::get<T>(std::move(state_));
  }
  const T& operator*() const& { return value(); }
  const T* operator->() const { return &value(); }
  const Diagnostics& errors() const { return std::get<Diagnostics>(state_); }

 private:
  std::variant<T, Diagnostics> state_;
};

struct Unit {};
using Status = Result<Unit>;

}  // namespace attnfuse
