#include "ir/diagnostic.h"

#include <algorithm>

#include <fmt/format.h>

namespace attnfuse {
namespace {

// Line `number` (from 1) of the text, without its line end; empty when there is no such line.
std::string_view line_of(std::string_view text, int number) {
  for (; number > 1; --number) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
  return text;
}

std::string place(const Where& where) {
  if (where.file.empty() && where.line <= 0) return {};
  std::string text = where.file.empty() ? "<text>" : where.file;
  if (where.line > 0) text += fmt::format(":{}", where.line);
  if (where.line > 0 && where.column > 0) text += fmt::format(":{}", where.column);
  return text + ": ";
}

// The source line and a caret under the place. Tabs stay tabs in the padding, so that the caret lines up;
// bytes that continue a UTF-8 character take no room.
std::string excerpt(const Where& where, std::string_view source) {
  if (where.line <= 0 || where.column <= 0) return {};
  const std::string_view line = line_of(source, where.line);
  if (line.empty()) return {};
  const std::size_t start = std::min(std::size_t(where.column - 1), line.size());
  const std::size_t length =
      std::min(std::size_t(std::max(where.length, 1)), std::max<std::size_t>(line.size() - start, 1));
  std::string padding;
  for (char c : line.substr(0, start))
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) padding += c == '\t' ? '\t' : ' ';
  return fmt::format("\n  {}\n  {}^{}", line, padding, std::string(length - 1, '~'));
}

}  // namespace

std::string render(const Diagnostic& diagnostic, std::string_view source) {
  std::string text =
      fmt::format("{}error[{}]: {}", place(diagnostic.where), diagnostic.code, diagnostic.message);
  text += excerpt(diagnostic.where, source);
  if (!diagnostic.fix.empty()) text += "\n  fix: " + diagnostic.fix;
  return text;
}

std::string render(const Diagnostics& diagnostics, std::string_view source) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += render(diagnostic, source);
  }
  return text;
}

void fail_check(const char* condition, const char* file, int line, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: {} ({})", file, line, message, condition));
}

}  // namespace attnfuse
