// TokenStream: the words of a text as the parser consumes them, and where it goes on after a mistake.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/lexer.h"

namespace attnfuse {

// Words that start a line of a program.
std::span<const std::string_view> line_words();

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, Diagnostics& errors) : tokens_(std::move(tokens)), errors_(errors) {}

  const Token& peek(std::size_t ahead = 0) const;
  std::size_t position() const { return at_; }
  bool at_end() const { return peek().kind == TokenKind::end; }
  Token next();
  bool accept(std::string_view text);
  bool expect(std::string_view text, std::string fix = {});
  // Not a word that starts a line, unless that word also is a size.
  std::optional<Token> expect_name(std::string_view what);
  // To the next line, as far as it can be told.
  void recover();

  std::nullopt_t fail(std::string code, std::string message, const Token& at, std::string fix = {});
  std::nullopt_t fail_expected(std::string_view what, std::string fix = {});
  std::size_t error_count() const { return errors_.size(); }

 private:
  std::vector<Token> tokens_;  // the last is `end`
  Diagnostics& errors_;
  std::size_t at_ = 0;
};

// The token in quotes, long ones shortened.
std::string shown(const Token& token);

}  // namespace attnfuse
