#include "frontend/token_stream.h"

#include <algorithm>

#include <fmt/format.h>

namespace attnfuse {
namespace {

constexpr std::string_view kLineWords[] = {"heads",   "kv_heads", "head_dim", "v_head_dim", "dtype",
                                           "storage", "param",    "query",    "key",        "value",
                                           "score",   "mask",     "normalize"};
// Line words that mean nothing in expressions: a safe place to go on after a mistake.
constexpr std::string_view kStops[] = {"dtype", "storage", "param", "query",     "key",
                                       "value", "score",   "mask",  "normalize", "attention"};

bool is_one_of(const Token& token, std::span<const std::string_view> words) {
  return token.kind == TokenKind::name && std::ranges::find(words, token.text) != words.end();
}

}  // namespace

std::span<const std::string_view> line_words() { return kLineWords; }

std::string shown(const Token& token) {
  constexpr std::size_t kShown = 40;
  if (token.kind == TokenKind::end) return "the end of the text";
  if (token.text.size() > kShown) return fmt::format("'{}...'", token.text.substr(0, kShown));
  return fmt::format("'{}'", token.text);
}

const Token& TokenStream::peek(std::size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

Token TokenStream::next() {
  const Token token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::accept(std::string_view text) {
  if (!peek().is(text)) return false;
  next();
  return true;
}

bool TokenStream::expect(std::string_view text, std::string fix) {
  if (accept(text)) return true;
  fail_expected(fmt::format("'{}'", text), std::move(fix));
  return false;
}

std::optional<Token> TokenStream::expect_name(std::string_view what) {
  if (peek().kind == TokenKind::name && !is_one_of(peek(), kStops)) return next();
  return fail_expected(what);
}

void TokenStream::recover() {
  while (!at_end() && !peek().is("}") && !is_one_of(peek(), kStops)) {
    if (peek().starts_line && is_one_of(peek(), kLineWords)) return;
    if (accept(";")) return;
    next();
  }
}

std::nullopt_t TokenStream::fail(std::string code, std::string message, const Token& at, std::string fix) {
  errors_.push_back({std::move(code), std::move(message), at.where, std::move(fix)});
  return std::nullopt;
}

std::nullopt_t TokenStream::fail_expected(std::string_view what, std::string fix) {
  return fail("syntax.expected", fmt::format("expected {}, found {}", what, shown(peek())), peek(),
              std::move(fix));
}

}  // namespace attnfuse
