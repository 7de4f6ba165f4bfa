#include "conformance/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "conformance/markup.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --good: #2a8a4a; --bad: #c03028; --none: #b8860b }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin-top: 2em }
table { border-collapse: collapse } th, td { padding: .2em .7em; border-bottom: 1px solid var(--line); text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.good { color: var(--good) } .bad { color: var(--bad); font-weight: 600 } .none { color: var(--none) }
code, pre { font: 13px/1.4 ui-monospace, monospace } pre { white-space: pre-wrap; overflow-wrap: anywhere }
.maps { display: flex; flex-wrap: wrap; gap: 1.5em } figure { margin: 0 } figcaption { font-size: 13px }
section.failure { border-left: 3px solid var(--bad); padding-left: 1em; margin: 1.5em 0 }
)";

struct Counts {
  std::size_t passed = 0, failed = 0, skipped = 0;
  double worst = 0;

  void add(const Outcome& outcome) {
    passed += outcome.verdict == Verdict::passed;
    failed += outcome.verdict == Verdict::failed;
    skipped += outcome.verdict == Verdict::skipped;
    worst = std::max(worst, outcome.worst_ratio);
  }
  std::size_t total() const { return passed + failed + skipped; }
};

struct FamilyRow {
  std::string name;
  Counts all;
  std::array<Counts, std::size(kDtypes)> by_dtype;
};

// In the order in which families first come.
std::vector<FamilyRow> family_rows(const std::vector<Outcome>& outcomes) {
  std::vector<FamilyRow> rows;
  for (const Outcome& outcome : outcomes) {
    auto row = std::ranges::find(rows, outcome.tested.family, &FamilyRow::name);
    if (row == rows.end()) row = rows.insert(rows.end(), FamilyRow{outcome.tested.family, {}, {}});
    row->all.add(outcome);
    const auto graph = parse_one(outcome.tested.program);
    for (std::size_t n = 0; n < std::size(kDtypes); ++n)
      if (graph && graph->info().dtype == kDtypes[n]) row->by_dtype[n].add(outcome);
  }
  return rows;
}

std::string cell(const Counts& counts) {
  if (counts.total() == 0) return "<td class=\"n\"></td>";
  const std::string_view look = counts.failed > 0 ? "bad" : counts.passed > 0 ? "good" : "none";
  std::string text = std::to_string(counts.passed);
  if (counts.failed > 0) text += fmt::format(", {} failed", counts.failed);
  if (counts.skipped > 0) text += fmt::format(", {} refused", counts.skipped);
  return fmt::format("<td class=\"n {}\">{}</td>", look, text);
}

std::string family_table(const std::vector<FamilyRow>& rows) {
  std::string text = "<h2>Families</h2>\n<table>\n<tr><th>family</th>";
  for (DType dtype : kDtypes) text += fmt::format("<th>{}</th>", name(dtype));
  text += "<th>all</th></tr>\n";
  for (const FamilyRow& row : rows) {
    text += fmt::format("<tr><td>{}</td>", escaped(row.name));
    for (const Counts& counts : row.by_dtype) text += cell(counts);
    text += cell(row.all) + "</tr>\n";
  }
  return text + "</table>\n";
}

// Bars on a scale where the budget is one.
std::string error_bars(const std::vector<FamilyRow>& rows) {
  constexpr int kLeft = 150, kWidth = 480, kStep = 20;
  constexpr double kMost = 1.2;
  const int height = int(rows.size()) * kStep + 24;
  std::string text = fmt::format(
      "<h2>Worst error by family, as a part of its budget</h2>\n<svg role=\"img\" "
      "xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-size=\"12\" fill=\"currentColor\">\n",
      kLeft + kWidth + 60, height);
  const auto x = [&](double ratio) { return kLeft + kWidth * std::min(ratio, kMost) / kMost; };
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const double worst = rows[n].all.worst;
    const int y = int(n) * kStep;
    text += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" "
        "height=\"{}\" fill=\"{}\"/><text x=\"{:.1f}\" y=\"{}\">{:.2f}</text>\n",
        kLeft - 8, y + 14, escaped(rows[n].name), kLeft, y + 3, x(worst) - kLeft, kStep - 6,
        worst > 1 ? "#c03028" : "#2a8a4a", x(worst) + 4, y + 14, worst);
  }
  text += fmt::format(
      "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1}\" stroke=\"currentColor\" "
      "stroke-dasharray=\"3\"/><text x=\"{0:.1f}\" y=\"{2}\" text-anchor=\"middle\">budget</text>\n</svg>\n",
      x(1), height - 20, height - 6);
  return text;
}

std::string mutation_table(const std::vector<MutationOutcome>& mutations) {
  constexpr std::string_view kStates[] = {"caught", "missed", "invalid", "for other devices"};
  constexpr std::string_view kLooks[] = {"good", "bad", "bad", "none"};
  std::string text = fmt::format(
      "<h2>Mutations: {}</h2>\n<table>\n<tr><th>mutation</th><th>what is broken</th><th>family"
      "</th><th></th><th>caught by</th></tr>\n",
      escaped(to_string(summarize(mutations))));
  for (const MutationOutcome& outcome : mutations) {
    const auto state = std::size_t(outcome.state);
    const bool is_caught = outcome.state == MutationOutcome::State::caught;
    text += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td></tr>\n",
                        escaped(outcome.mutation->name), escaped(outcome.mutation->broken),
                        escaped(outcome.mutation->family), kLooks[state], kStates[state],
                        is_caught ? fmt::format("<code>{}</code>", escaped(to_line(outcome.caught_by)))
                                  : escaped(outcome.message));
  }
  return text + "</table>\n";
}

// White where right, darker to the budget, red beyond it, violet where NaN or infinity do not match.
std::string colour(double ratio) {
  if (std::isinf(ratio)) return "#7030a0";
  if (ratio > 1) {
    const double heat = std::min(std::log10(ratio) / 3, 1.0);
    return fmt::format("#{:02x}{:02x}30", 255 - int(90 * heat), int(140 * (1 - heat)));
  }
  const int grey = 245 - int(110 * std::max(ratio, 0.0));
  return fmt::format("#{0:02x}{0:02x}{0:02x}", grey);
}

std::string heat_map(const ErrorMap& map) {
  const int side = int(std::clamp<std::int64_t>(320 / std::max(map.height, map.width), 4, 14));
  const auto width = map.width * side, height = map.height * side;
  std::string text = fmt::format(
      "<figure><svg role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" shape-rendering=\"crispEdges\">\n",
      width, height);
  for (std::int64_t row = 0; row < map.height; ++row)
    for (std::int64_t column = 0; column < map.width; ++column)
      text += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)", column * side,
                          row * side, side, side, colour(map.worst[std::size_t(row * map.width + column)]));
  return text + fmt::format("\n</svg><figcaption>{} ({} x {})</figcaption></figure>\n", escaped(map.title),
                            map.rows, map.columns);
}

std::string failure(const Outcome& outcome, const std::string& target) {
  std::string text =
      fmt::format("<section class=\"failure\">\n<p>{}</p>\n<pre>{}</pre>\n<div class=\"maps\">\n",
                  escaped(outcome.message), escaped(rerun_command(outcome.tested, target)));
  for (const ErrorMap& map : outcome.maps) text += heat_map(map);
  return text + "</div>\n</section>\n";
}

std::string failures(const Report& report) {
  constexpr std::size_t kMost = 50;  // shown
  std::size_t count = 0;
  std::string text;
  for (const Outcome& outcome : report.outcomes)
    if (outcome.verdict == Verdict::failed && count++ < kMost) text += failure(outcome, report.target);
  if (count == 0) return {};
  const std::string more = count > kMost ? fmt::format("<p>and {} more</p>\n", count - kMost) : "";
  return fmt::format(
      "<h2>Failures</h2>\n<p>Maps: grey is inside the budget, red beyond it, violet where NaN or infinity "
      "do not match.</p>\n{}{}",
      text, more);
}

std::string refusals(const Report& report) {
  std::string text;
  for (const Outcome& outcome : report.outcomes)
    if (outcome.verdict == Verdict::skipped)
      text += fmt::format("<li><code>{}</code><pre>{}</pre></li>\n", escaped(to_line(outcome.tested)),
                          escaped(outcome.message));
  return text.empty() ? "" : fmt::format("<h2>Refused</h2>\n<ul>\n{}</ul>\n", text);
}

}  // namespace

std::string rerun_command(const Case& c, const std::string& target) {
  return fmt::format("attnfuse conform --target {} --case '{}'", target, to_line(c));
}

std::string html(const Report& report) {
  const Summary summary = summarize(report.outcomes);
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<title>AttnFuse conformance: "
      "{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>AttnFuse conformance</h1>\n<p>{2}, "
      "<code>{0}</code></p>\n",
      escaped(report.target), kStyle, escaped(report.device));
  if (!report.outcomes.empty()) {
    const std::vector<FamilyRow> rows = family_rows(report.outcomes);
    text += fmt::format("<p class=\"{}\">{}</p>\n", summary.failed == 0 ? "good" : "bad",
                        escaped(to_string(summary)));
    text += family_table(rows) + error_bars(rows);
  }
  if (!report.mutations.empty()) text += mutation_table(report.mutations);
  return text + failures(report) + refusals(report) + "</body>\n</html>\n";
}

}  // namespace attnfuse::conformance
