// The smallest case that still fails: programs lose statements, masks lose parts, sizes are halved.
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "conformance/fuzz.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {
namespace {

// A program as words "attention NAME {", statements, and "}".
struct Statements {
  std::string head;
  std::vector<std::string> lines;  // "heads 4", "param t : f32[heads]", "mask causal"
};

constexpr std::string_view kDims[] = {"heads", "kv_heads", "head_dim", "v_head_dim", "dtype"};
constexpr std::string_view kStages[] = {"param", "query",     "key",     "value", "score",
                                        "mask",  "normalize", "weights", "output"};

template <std::size_t n>
bool is_one_of(std::string_view word, const std::string_view (&words)[n]) {
  return std::ranges::find(words, word) != std::end(words);
}

std::string_view first_word(std::string_view text) { return text.substr(0, text.find(' ')); }

Statements statements_of(const std::string& program) {
  Statements found;
  int depth = 0;
  bool in_dims = true;
  const std::size_t open = program.find('{'), close = program.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return found;
  found.head = program.substr(0, open + 1);
  for (std::size_t at = open + 1; at < close;) {
    if (program[at] == ' ') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(program.find(' ', at), close);
    const std::string word = program.substr(at, end - at);
    const bool is_stage = is_one_of(word, kStages);
    in_dims = in_dims && !is_stage;
    if (depth == 0 && (is_stage || (in_dims && is_one_of(word, kDims))))
      found.lines.push_back(word);
    else if (!found.lines.empty())
      found.lines.back() += " " + word;
    for (char c : word) depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    at = end;
  }
  return found;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

bool mentions(const std::string& text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word(text[at - 1])) && (end == text.size() || !is_word(text[end]))) return true;
  }
  return false;
}

// Without the tensors that nothing mentions.
std::string program_of(Statements statements) {
  std::erase_if(statements.lines, [&](const std::string& line) {
    if (first_word(line) != "param") return false;
    const std::string_view name = first_word(std::string_view(line).substr(6));
    return std::ranges::none_of(statements.lines, [&](const std::string& other) {
      return first_word(other) != "param" && mentions(other, name);
    });
  });
  std::string text = statements.head;
  for (const std::string& line : statements.lines) text += " " + line;
  return text + " }";
}

// Parts of a condition: both sides of && and ||, and what stands in brackets.
std::vector<std::string> parts_of(std::string_view condition) {
  while (condition.starts_with(' ')) condition.remove_prefix(1);
  while (condition.ends_with(' ')) condition.remove_suffix(1);
  int depth = 0;
  for (std::size_t at = 0; at + 1 < condition.size(); ++at) {
    depth += condition[at] == '(' || condition[at] == '[' ? 1 : 0;
    depth -= condition[at] == ')' || condition[at] == ']' ? 1 : 0;
    const std::string_view two = condition.substr(at, 2);
    if (depth == 0 && (two == "&&" || two == "||"))
      return {std::string(condition.substr(0, at)), std::string(condition.substr(at + 2))};
  }
  if (condition.starts_with('!')) return {std::string(condition.substr(1))};
  if (condition.starts_with('(') && condition.ends_with(')'))
    return {std::string(condition.substr(1, condition.size() - 2))};
  return {};
}

void add_simpler_dims(const Statements& from, std::size_t line, std::vector<std::string>& programs) {
  constexpr std::array<std::string_view, 9> kSimpler = {"v_head_dim",  "heads 1",    "heads 2",
                                                        "kv_heads 1",  "kv_heads 2", "head_dim 16",
                                                        "head_dim 32", "dtype f32",  "dtype f16"};
  for (std::string_view simple : kSimpler) {
    if (first_word(simple) != first_word(from.lines[line])) continue;
    // Later ones in the row are less simple.
    if (from.lines[line] == simple) break;
    Statements smaller = from;
    if (simple == first_word(simple))
      smaller.lines.erase(smaller.lines.begin() + std::ptrdiff_t(line));
    else
      smaller.lines[line] = simple;
    programs.push_back(program_of(smaller));
  }
}

std::vector<std::string> simpler_programs(const std::string& program) {
  const Statements all = statements_of(program);
  std::vector<std::string> programs;
  for (std::size_t n = 0; n < all.lines.size(); ++n) {
    const std::string_view keyword = first_word(all.lines[n]);
    if (is_one_of(keyword, kDims)) {
      add_simpler_dims(all, n, programs);
      continue;
    }
    Statements smaller = all;
    smaller.lines.erase(smaller.lines.begin() + std::ptrdiff_t(n));
    programs.push_back(program_of(smaller));
    if (keyword != "mask") continue;
    for (const std::string& part : parts_of(std::string_view(all.lines[n]).substr(5))) {
      smaller = all;
      smaller.lines[n] = one_line("mask " + part);
      programs.push_back(program_of(smaller));
    }
  }
  std::erase_if(programs, [&](const std::string& text) { return text == program || !parse_one(text); });
  return programs;
}

std::vector<Case> simpler(const Case& c) {
  std::vector<Case> candidates;
  const auto add = [&](auto change) {
    Case simple = c;
    change(simple);
    if (!(simple == c)) candidates.push_back(std::move(simple));
  };
  for (const std::string& program : simpler_programs(c.program))
    add([&](Case& simple) { simple.program = program; });
  add([](Case& simple) { simple.batch = std::min<std::int64_t>(simple.batch, 1); });
  add([](Case& simple) { simple.sq /= 2; });
  add([](Case& simple) { simple.skv /= 2; });
  add([](Case& simple) { simple.sq = std::max<std::int64_t>(simple.sq - 1, 0); });
  add([](Case& simple) { simple.skv = std::max<std::int64_t>(simple.skv - 1, 0); });
  add([](Case& simple) { simple.layout = Layout::bhsd; });
  add([](Case& simple) { simple.data = Data::normal; });
  add([](Case& simple) { simple.rotation = Rotation::automatic; });
  return candidates;
}

}  // namespace

Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int most) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Case& candidate : simpler(failing)) {
      if (most-- <= 0) return failing;
      if (!fails(candidate)) continue;
      failing = candidate;
      smaller = true;
      break;
    }
  }
  return failing;
}

}  // namespace attnfuse::conformance
