#include "frontend/lexer.h"

#include <charconv>

#include <fmt/format.h>

namespace attnfuse {
namespace {

// Longer before shorter.
constexpr std::string_view kSymbols[] = {"&&", "||", "<=", ">=", "==", "!=", "//", "..", "{",
                                         "}",  "(",  ")",  "[",  "]",  ",",  ";",  ":",  "=",
                                         "+",  "-",  "*",  "/",  "%",  "<",  ">",  "!"};

// The C locale's classes, whatever the program's locale is.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class Lexer {
 public:
  Lexer(std::string_view source, const std::string& file, Diagnostics& errors)
      : source_(source), file_(file), errors_(errors) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    for (;;) {
      skip_blanks();
      if (at_ == source_.size()) break;
      Token token;
      if (is_letter(peek())) {
        token = take(TokenKind::name, word_length());
      } else if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) {
        token = number();
      } else if (const std::size_t length = symbol_length()) {
        token = take(TokenKind::symbol, length);
      } else {
        skip_unknown();
        continue;
      }
      tokens.push_back(token);
    }
    tokens.push_back(take(TokenKind::end, 0));
    return tokens;
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  void skip_blanks() {
    while (at_ < source_.size()) {
      if (peek() == '#') {
        while (at_ < source_.size() && peek() != '\n') ++at_;
      } else if (is_blank(peek())) {
        if (peek() == '\n') {
          ++line_;
          line_start_ = at_ + 1;
          starts_line_ = true;
        }
        ++at_;
      } else {
        return;
      }
    }
  }

  Token take(TokenKind kind, std::size_t length) {
    Token token;
    token.kind = kind;
    token.text = source_.substr(at_, length);
    token.where = {file_, line_, int(at_ - line_start_) + 1, length == 0 ? 1 : int(length)};
    token.starts_line = starts_line_;
    starts_line_ = false;
    at_ += length;
    return token;
  }

  std::size_t word_length() const {
    std::size_t length = 0;
    while (is_word(peek(length))) ++length;
    return length;
  }

  std::size_t symbol_length() const {
    for (std::string_view symbol : kSymbols)
      if (source_.substr(at_).starts_with(symbol)) return symbol.size();
    return 0;
  }

  // Digits, a point, an exponent; letters that follow belong to it and make it malformed. Two points end it.
  Token number() {
    std::size_t length = 0;
    bool is_integer = true;
    while (is_digit(peek(length))) ++length;
    if (peek(length) == '.' && peek(length + 1) != '.') {
      is_integer = false;
      ++length;
      while (is_digit(peek(length))) ++length;
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      is_integer = false;
      ++length;
      if (peek(length) == '+' || peek(length) == '-') ++length;
    }
    while (is_word(peek(length)) || (peek(length) == '.' && peek(length + 1) != '.')) ++length;
    Token token = take(TokenKind::number, length);
    token.is_integer = is_integer;
    const char *const begin = token.text.data(), *const end = begin + token.text.size();
    const auto [stop, error] = std::from_chars(begin, end, token.value);
    if (error == std::errc::result_out_of_range)
      errors_.push_back({"syntax.number-range", fmt::format("{} does not fit a double", shown(token.text)),
                         token.where, "use a number between 1e-300 and 1e300"});
    else if (error != std::errc{} || stop != end)
      errors_.push_back({"syntax.number", fmt::format("'{}' is not a number", shown(token.text)), token.where,
                         "write numbers like 8, 0.125 or 5e5"});
    else if (is_integer && token.value > INT32_MAX)
      errors_.push_back(
          {"syntax.number-range",
           fmt::format("{} is larger than the largest integer, {}", shown(token.text), INT32_MAX),
           token.where, "write it with a point or an exponent to make it a real number"});
    else
      return token;
    token.value = 1;
    return token;
  }

  static std::string shown(std::string_view text) {
    constexpr std::size_t kShown = 40;
    return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
  }

  // One diagnostic for a run of bytes that start no token.
  void skip_unknown() {
    Token token = take(TokenKind::end, 1);
    const auto byte = static_cast<unsigned char>(token.text[0]);
    const bool printable = byte > ' ' && byte < 0x7F;
    while (at_ < source_.size() && !is_blank(peek()) && !is_word(peek()) && peek() != '#' &&
           symbol_length() == 0) {
      ++at_;
      ++token.where.length;
    }
    errors_.push_back({"syntax.character",
                       printable ? fmt::format("'{}' is not part of the language", char(byte))
                                 : fmt::format("byte 0x{:02x} is not part of the language", byte),
                       token.where, "remove it"});
  }

  std::string_view source_;
  const std::string& file_;
  Diagnostics& errors_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  bool starts_line_ = true;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source, const std::string& file, Diagnostics& errors) {
  return Lexer(source, file, errors).run();
}

}  // namespace attnfuse
