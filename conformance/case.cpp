#include "conformance/case.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

namespace attnfuse::conformance {
namespace {

constexpr KindInfo<Layout> kLayouts[] = {
    {Layout::bhsd, "bhsd", "contiguous"},
    {Layout::bshd, "bshd", "heads inside rows"},
    {Layout::sbhd, "sbhd", "batch and heads inside rows"},
    {Layout::padded, "padded", "gaps after rows, heads and the last row"},
    {Layout::offset, "offset", "contiguous, one element past an aligned address"},
    {Layout::odd, "odd", "row stride head dim + 1, one element past an aligned address"},
    {Layout::broadcast, "broadcast", "k and v have batch stride 0"},
    {Layout::mixed, "mixed", "every tensor differently"},
    {Layout::far, "far",
     "kv heads of k and v, heads of large captured tensors more than 2^31 elements apart"},
};

constexpr KindInfo<Data> kData[] = {
    {Data::normal, "normal", "standard normal"},
    {Data::large_logit, "large_logit", "scores in the thousands"},
    {Data::real, "real", "channel means, wide spread, outliers"},
    {Data::big_value, "big_value", "values near the end of the f16 range"},
    {Data::uniform, "uniform", "zero keys: the average of the allowed values"},
    {Data::poison_masked, "poison_masked", "NaN, infinity, huge values in k and v where no query looks"},
    {Data::poison_seen, "poison_seen", "NaN and infinity where some queries look and others do not"},
    {Data::poison_others, "poison_others", "NaN in k and v of every second sequence"},
};

constexpr KindInfo<Check> kChecks[] = {
    {Check::value, "value", "equals the reference"},
    {Check::repeat, "repeat", "ten more launches give the same bits"},
    {Check::decode, "decode", "the last query alone gives the last row"},
    {Check::same_bits, "same_bits", "the same bits without poison"},
    {Check::shift, "shift", "the same with a constant added to all scores"},
    {Check::reverse, "reverse", "the same with the keys in reverse"},
    {Check::merge, "merge", "the same merged from two parts of the keys"},
    {Check::alone, "alone", "the same bits for batch entries alone"},
    {Check::chunk, "chunk", "the last third of each sequence's queries alone gives their rows"},
    {Check::page_order, "page_order", "the same bits with pages in order"},
};

constexpr KindInfo<Pages> kPages[] = {
    {Pages::shuffled, "shuffled", "in no order"},
    {Pages::ordered, "ordered", "one after the other"},
    {Pages::shared, "shared", "in no order, and sequences begin with the same page"},
};

constexpr std::string_view kSeparator = " :: ";

template <class Kind>
std::string_view name_in(std::span<const KindInfo<Kind>> table, Kind kind) {
  return table[std::size_t(kind)].name;
}

Diagnostic syntax(std::string message) {
  return {"case.syntax",
          std::move(message),
          {},
          "a case reads: family b=1 sq=16 skv=16 layout=bhsd data=normal check=value seed=1 :: attention t { "
          "... }"};
}

template <class Kind>
std::optional<Diagnostic> set_kind(std::span<const KindInfo<Kind>> table, std::string_view key,
                                   std::string_view text, Kind& to) {
  std::string known;
  for (const auto& row : table) {
    if (row.name == text) {
      to = row.kind;
      return std::nullopt;
    }
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return Diagnostic{
      "case.unknown-word", fmt::format("{} = {} is not known", key, text), {}, "one of " + known};
}

template <class Number>
std::optional<Diagnostic> set_number(std::string_view key, std::string_view text, Number& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  constexpr auto kLimit = std::int64_t(1) << 31;
  if (error != std::errc{} || end != text.data() + text.size() ||
      (std::is_signed_v<Number> && (std::int64_t(to) < 0 || std::int64_t(to) > kLimit)))
    return syntax(fmt::format("{} = '{}' is not a number from 0 to {}", key, text, kLimit));
  return std::nullopt;
}

std::optional<Diagnostic> set_rotation(std::string_view text, Rotation& to) {
  std::string known;
  for (const RotationInfo& row : rotations()) known += (known.empty() ? "" : ", ") + std::string(row.name);
  const auto rotation = rotation_from_name(text);
  if (!rotation)
    return Diagnostic{
        "case.unknown-word", fmt::format("rotation = {} is not known", text), {}, "one of " + known};
  to = *rotation;
  return std::nullopt;
}

std::optional<Diagnostic> set_field(Case& c, std::string_view key, std::string_view text) {
  if (key == "b") return set_number(key, text, c.batch);
  if (key == "sq") return set_number(key, text, c.sq);
  if (key == "skv") return set_number(key, text, c.skv);
  if (key == "seed") return set_number(key, text, c.seed);
  if (key == "layout") return set_kind(layouts(), key, text, c.layout);
  if (key == "data") return set_kind(data_kinds(), key, text, c.data);
  if (key == "check") return set_kind(checks(), key, text, c.check);
  if (key == "rotation") return set_rotation(text, c.rotation);
  if (key == "lengths") {
    auto lengths = parse_lengths(text);
    if (!lengths) return lengths.errors().front();
    set_lengths(c, std::move(lengths).value());
    return std::nullopt;
  }
  if (key == "pages") return set_kind(page_kinds(), key, text, c.pages);
  return syntax(fmt::format("'{}' is not a field of a case", key));
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find(' ', begin), text.size());
    found.push_back(text.substr(begin, at - begin));
  }
  return found;
}

}  // namespace

std::span<const KindInfo<Layout>> layouts() { return kLayouts; }
std::span<const KindInfo<Data>> data_kinds() { return kData; }
std::span<const KindInfo<Check>> checks() { return kChecks; }
std::span<const KindInfo<Pages>> page_kinds() { return kPages; }
std::string_view name(Layout layout) { return name_in(layouts(), layout); }
std::string_view name(Data data) { return name_in(data_kinds(), data); }
std::string_view name(Check check) { return name_in(checks(), check); }
std::string_view name(Pages pages) { return name_in(page_kinds(), pages); }

Result<std::vector<Lengths>> parse_lengths(std::string_view text) {
  std::vector<Lengths> lengths;
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t slash = std::min(pair.find('/'), pair.size());
    const bool has_both = slash < pair.size();
    Lengths& last = lengths.emplace_back();
    std::optional<Diagnostic> wrong =
        has_both ? set_number("lengths", pair.substr(0, slash), last.q)
                 : syntax(fmt::format("lengths = '{}' is not written queries/keys", pair));
    if (!wrong) wrong = set_number("lengths", pair.substr(slash + 1), last.kv);
    if (wrong) return *wrong;
  }
  return lengths;
}

void set_lengths(Case& c, std::vector<Lengths> lengths) {
  c.batch = std::int64_t(lengths.size());
  c.sq = c.skv = 0;
  for (const Lengths& own : lengths) {
    c.sq = std::max(c.sq, own.q);
    c.skv = std::max(c.skv, own.kv);
  }
  c.lengths = std::move(lengths);
}

std::vector<Lengths> lengths_of(const Case& c) {
  return c.lengths.empty() ? std::vector<Lengths>(std::size_t(c.batch), Lengths{c.sq, c.skv}) : c.lengths;
}

std::string to_line(const Case& c) {
  std::string others;
  if (c.rotation != Rotation::automatic) others += fmt::format(" rotation={}", name(c.rotation));
  for (const Lengths& own : c.lengths)
    others += fmt::format("{}{}/{}", &own == c.lengths.data() ? " lengths=" : ",", own.q, own.kv);
  if (c.pages != Pages::shuffled) others += fmt::format(" pages={}", name(c.pages));
  return fmt::format("{} b={} sq={} skv={} layout={} data={} check={}{} seed={}{}{}", c.family, c.batch, c.sq,
                     c.skv, name(c.layout), name(c.data), name(c.check), others, c.seed, kSeparator,
                     c.program);
}

Result<Case> parse_line(std::string_view line) {
  const std::size_t separator = line.find(kSeparator);
  if (separator == std::string_view::npos) return syntax("no ' :: ' before the program");
  Case c;
  c.program = one_line(line.substr(separator + kSeparator.size()));
  if (c.program.empty()) return syntax("no program after ' :: '");
  for (std::string_view word : words(line.substr(0, separator))) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      if (!c.family.empty()) return syntax(fmt::format("'{}' is not key=value", word));
      c.family = word;
    } else if (auto wrong = set_field(c, word.substr(0, equals), word.substr(equals + 1))) {
      return *wrong;
    }
  }
  if (c.family.empty()) return syntax("no family name");
  return c;
}

std::string one_line(std::string_view program) {
  std::string text;
  bool in_comment = false;
  for (char c : program) {
    if (c == '#') in_comment = true;
    if (c == '\n') in_comment = false;
    if (in_comment) continue;
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank)
      text += c;
    else if (!text.empty() && text.back() != ' ')
      text += ' ';
  }
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace attnfuse::conformance
