// Words of .attn text. Only the parser uses it. Line ends separate words like blanks; # starts a comment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"

namespace attnfuse {

enum class TokenKind : std::uint8_t { name, number, symbol, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;    // into the source
  double value = 0;         // of a number
  bool is_integer = false;  // written without point and exponent
  bool starts_line = false;
  Where where;

  bool is(std::string_view symbol_or_name) const {
    return (kind == TokenKind::symbol || kind == TokenKind::name) && text == symbol_or_name;
  }
};

// All tokens, the last being `end`. Bytes that start no token are reported and skipped.
std::vector<Token> tokenize(std::string_view source, const std::string& file, Diagnostics& errors);

}  // namespace attnfuse
