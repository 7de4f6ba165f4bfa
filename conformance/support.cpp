#include "conformance/support.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

struct HeadDims {
  int head_dim, v_head_dim;
};

// All that a program may have with values as wide as keys, then some that differ.
std::vector<HeadDims> all_head_dims() {
  std::vector<HeadDims> all;
  for (int dim = 8; dim <= 256; dim += 8) all.push_back({dim, dim});
  for (HeadDims dims :
       {HeadDims{192, 128}, {128, 192}, {32, 256}, {256, 32}, {320, 320}, {512, 512}, {576, 512}})
    all.push_back(dims);
  return all;
}

Case support_case(DType dtype, HeadDims dims) {
  Case c;
  c.family = "support";
  c.sq = 19;
  c.skv = 70;
  c.program = fmt::format(
      "attention support {{ heads 2 kv_heads 1 head_dim {} v_head_dim {} dtype {} "
      "query rope(theta = 10000) key rope(theta = 10000) mask causal normalize softmax }}",
      dims.head_dim, dims.v_head_dim, name(dtype));
  return c;
}

SupportCell refused_or_broken(SupportCell cell, const Diagnostics& diagnostics) {
  cell.state = is_refusal(diagnostics) ? SupportCell::State::refused : SupportCell::State::broken;
  cell.message = render(diagnostics);
  return cell;
}

SupportCell run_cell(SupportCell cell, const Target& target, SupportDepth depth, Executor* executor,
                     const Case& c) {
  const auto graph = parse_one(c.program);
  if (!graph) return refused_or_broken(cell, graph.errors());
  const auto program = compile_to_tiles(*graph, target);
  if (!program) return refused_or_broken(cell, program.errors());
  cell.leaf = program->unit.leaf;
  const Backend* backend = find_backend(target.backend);
  const auto source = backend->emit(*program);
  if (!source) return refused_or_broken(cell, source.errors());
  cell.state = SupportCell::State::emits;
  if (depth == SupportDepth::source) return cell;
  const auto binary = backend->assemble(*source, target);
  if (!binary) {
    return binary.errors().front().code == "toolkit.missing" ? cell
                                                             : refused_or_broken(cell, binary.errors());
  }
  cell.state = SupportCell::State::compiles;
  if (!executor || executor->target().name != target.name) return cell;
  const Outcome outcome = run_case(*executor, c);
  switch (outcome.verdict) {
    case Verdict::passed:
      cell.state = SupportCell::State::passes;
      break;
    case Verdict::failed:
      cell.state = SupportCell::State::broken;
      break;
    case Verdict::skipped:
      cell.state = SupportCell::State::refused;
      break;
  }
  cell.message = outcome.message;
  return cell;
}

std::string dims_text(const SupportCell& cell) {
  return cell.head_dim == cell.v_head_dim ? fmt::format("{}", cell.head_dim)
                                          : fmt::format("{}/{}", cell.head_dim, cell.v_head_dim);
}

// "8–256, 192/128": neighbours among equal head dims are a range.
std::string ranges_text(const std::vector<const SupportCell*>& cells) {
  const auto follows = [](const SupportCell& next, const SupportCell& cell) {
    return cell.head_dim == cell.v_head_dim && next.head_dim == next.v_head_dim &&
           next.head_dim == cell.head_dim + 8;
  };
  std::string text;
  for (std::size_t first = 0, last = 0; first < cells.size(); first = ++last) {
    while (last + 1 < cells.size() && follows(*cells[last + 1], *cells[last])) ++last;
    text += (text.empty() ? "" : ", ") + dims_text(*cells[first]);
    if (last > first) text += "–" + dims_text(*cells[last]);
  }
  return text;
}

std::string claim(const SupportCell& cell) {
  switch (cell.state) {
    case SupportCell::State::passes:
      return cell.leaf + " passes";
    case SupportCell::State::compiles:
      return cell.leaf + " compiles";
    case SupportCell::State::emits:
      return cell.leaf;
    case SupportCell::State::refused:
      return "refused";
    case SupportCell::State::broken:
      return "FAILS";
  }
  return "";
}

// What is claimed of one target and dtype, with the head dims it is claimed of unless it is all of them.
std::string claims_text(const std::vector<SupportCell>& cells, const std::string& target, DType dtype) {
  std::vector<std::pair<std::string, std::vector<const SupportCell*>>> claims;
  for (const SupportCell& cell : cells) {
    if (cell.target != target || cell.dtype != dtype) continue;
    const std::string text = claim(cell);
    auto found = std::ranges::find_if(claims, [&](const auto& known) { return known.first == text; });
    if (found == claims.end()) found = claims.insert(claims.end(), {text, {}});
    found->second.push_back(&cell);
  }
  if (claims.size() == 1) return claims.front().first;
  std::string text;
  for (const auto& [what, of] : claims)
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, ranges_text(of));
  return text;
}

// Rows of Markdown, and the targets that each is true of.
std::vector<std::pair<std::string, std::string>> rows(const std::vector<SupportCell>& cells) {
  std::vector<std::pair<std::string, std::string>> result;
  std::string before;
  for (const SupportCell& cell : cells) {
    if (cell.target == before) continue;
    before = cell.target;
    std::string columns;
    for (DType dtype : kDtypes) columns += fmt::format(" {} |", claims_text(cells, cell.target, dtype));
    const std::string name = fmt::format("`{}`", cell.target);
    const auto alike = std::ranges::find_if(result, [&](const auto& row) { return row.second == columns; });
    if (alike == result.end())
      result.emplace_back(name, columns);
    else
      alike->first += " " + name;
  }
  return result;
}

}  // namespace

std::vector<SupportCell> support_matrix(const std::vector<Target>& targets, SupportDepth depth,
                                        Executor* executor, const SupportProgress& progress) {
  std::vector<SupportCell> cells;
  for (const Target& target : targets)
    for (DType dtype : kDtypes)
      for (HeadDims dims : all_head_dims()) {
        SupportCell cell{target.name, dtype, dims.head_dim, dims.v_head_dim};
        try {
          cell = run_cell(cell, target, depth, executor, support_case(dtype, dims));
        } catch (const InternalError& error) {
          cell.message = error.what();
        }
        if (progress) progress(cell);
        cells.push_back(std::move(cell));
      }
  return cells;
}

std::string support_table(const std::vector<SupportCell>& cells) {
  std::string text = "| target | f16 | bf16 | f32 |\n|---|---|---|---|\n";
  for (const auto& [targets, columns] : rows(cells)) text += fmt::format("| {} |{}\n", targets, columns);
  std::string refused;
  for (const SupportCell& cell : cells)
    if (cell.state == SupportCell::State::refused)
      refused +=
          fmt::format("* `{}` {} {}: {}\n", cell.target, name(cell.dtype), dims_text(cell), cell.message);
  return text + (refused.empty() ? "\nNothing is refused.\n" : "\nRefused:\n\n" + refused);
}

}  // namespace attnfuse::conformance
