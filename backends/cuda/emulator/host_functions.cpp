#include "backends/cuda/emulator/host_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace attnfuse::cuda {
namespace {

constexpr std::string_view kMark = "AF_FN ";

// Past the character, string literal or comment at `at`.
std::size_t past(std::string_view text, std::size_t at) {
  if (text.substr(at, 2) == "//") return std::min(text.find('\n', at), text.size());
  if (text[at] != '"') return at + 1;
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

// Past the block that opens at or after `at`.
std::size_t past_block(std::string_view text, std::size_t at) {
  int depth = 0;
  while (at < text.size()) {
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    const bool closed = text[at] == '}' && depth == 0;
    at = past(text, at);
    if (closed) break;
  }
  return at;
}

std::string name_before(std::string_view text, std::size_t parenthesis) {
  std::size_t begin = parenthesis;
  while (begin > 0 &&
         (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || text[begin - 1] == '_'))
    --begin;
  return std::string(text.substr(begin, parenthesis - begin));
}

}  // namespace

std::vector<TextFunction> functions_in(std::string_view text) {
  std::vector<TextFunction> result;
  std::size_t line = 0;
  while (line < text.size()) {
    std::size_t next = std::min(text.find('\n', line), text.size() - 1) + 1;
    const std::string_view first = text.substr(line, next - line);
    const std::size_t mark = first.find(kMark);
    if (mark == 0 || (mark != std::string_view::npos && first.substr(0, 9) == "template ")) {
      const std::size_t end = past_block(text, line + mark);
      next = std::min(text.find('\n', end), text.size() - 1) + 1;
      const std::string_view body = text.substr(line, end - line);
      result.push_back({line, next, name_before(text, text.find('(', line + mark)),
                        body.find("asm volatile(") != std::string_view::npos ||
                            body.find("asm(") != std::string_view::npos});
    }
    line = next;
  }
  return result;
}

std::string with_host_functions(std::string_view source, std::string_view host) {
  const std::vector<TextFunction> host_functions = functions_in(host);
  std::set<std::string> known, replaced;
  for (const TextFunction& function : host_functions) known.insert(function.name);
  std::vector<TextFunction> gone;
  for (const TextFunction& function : functions_in(source))
    if (function.has_assembly && known.contains(function.name)) {
      gone.push_back(function);
      replaced.insert(function.name);
    }
  if (gone.empty()) return std::string(source);
  const auto lines = [&](std::size_t begin, std::size_t end) {
    return std::count(source.begin() + std::ptrdiff_t(begin), source.begin() + std::ptrdiff_t(end), '\n');
  };
  std::string text(source.substr(0, gone[0].begin));
  text += host.substr(0, host_functions[0].begin);
  for (const TextFunction& function : host_functions)
    if (replaced.contains(function.name)) text += host.substr(function.begin, function.end - function.begin);
  text += fmt::format("#line {} \"kernel.cu\"\n", lines(0, gone[0].begin) + 1);
  for (std::size_t n = 0; n < gone.size(); ++n) {
    text.append(std::size_t(lines(gone[n].begin, gone[n].end)), '\n');
    const std::size_t next = n + 1 < gone.size() ? gone[n + 1].begin : source.size();
    text += source.substr(gone[n].end, next - gone[n].end);
  }
  return text;
}

}  // namespace attnfuse::cuda
