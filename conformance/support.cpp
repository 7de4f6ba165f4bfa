#include "conformance/support.h"

#include <fmt/format.h>

#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::conformance {
namespace {

struct HeadDims {
  int head_dim, v_head_dim;
};
constexpr HeadDims kHeadDims[] = {{8, 8},     {16, 16},   {24, 24},   {32, 32},   {40, 40},   {64, 64},
                                  {72, 72},   {80, 80},   {96, 96},   {104, 104}, {128, 128}, {160, 160},
                                  {192, 192}, {224, 224}, {256, 256}, {192, 128}, {32, 256}};
constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

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

SupportCell run_cell(SupportCell cell, const Target& target, Executor* executor, const Case& c) {
  const auto graph = parse_one(c.program);
  if (!graph) return refused_or_broken(cell, graph.errors());
  const auto program = compile_to_tiles(*graph, target);
  if (!program) return refused_or_broken(cell, program.errors());
  const Backend* backend = find_backend(target.backend);
  const auto source = backend->emit(*program);
  if (!source) return refused_or_broken(cell, source.errors());
  const auto binary = backend->assemble(*source, target);
  if (!binary) {
    if (binary.errors().front().code != "toolkit.missing") return refused_or_broken(cell, binary.errors());
    cell.state = SupportCell::State::emits;
    return cell;
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

const char* word(SupportCell::State state) {
  switch (state) {
    case SupportCell::State::passes:
      return "ok";
    case SupportCell::State::compiles:
      return "built";
    case SupportCell::State::emits:
      return "text";
    case SupportCell::State::refused:
      return "-";
    case SupportCell::State::broken:
      return "FAIL";
  }
  return "";
}

}  // namespace

std::vector<SupportCell> support_matrix(const std::vector<Target>& targets, Executor* executor,
                                        const SupportProgress& progress) {
  std::vector<SupportCell> cells;
  for (const Target& target : targets)
    for (DType dtype : kDtypes)
      for (HeadDims dims : kHeadDims) {
        SupportCell cell{target.name, dtype, dims.head_dim, dims.v_head_dim, SupportCell::State::broken, {}};
        try {
          cell = run_cell(cell, target, executor, support_case(dtype, dims));
        } catch (const InternalError& error) {
          cell.message = error.what();
        }
        if (progress) progress(cell);
        cells.push_back(std::move(cell));
      }
  return cells;
}

std::string support_table(const std::vector<SupportCell>& cells) {
  std::string text =
      "ok: compiled and equals the reference, built: compiled, text: emitted, -: refused with a reason\n\n"
      "| target | dtype |";
  std::string rule = "|---|---|";
  for (HeadDims dims : kHeadDims) {
    text += dims.head_dim == dims.v_head_dim ? fmt::format(" {} |", dims.head_dim)
                                             : fmt::format(" {}/{} |", dims.head_dim, dims.v_head_dim);
    rule += "---|";
  }
  text += "\n" + rule;
  for (std::size_t n = 0; n < cells.size(); ++n) {
    if (n % std::size(kHeadDims) == 0)
      text += fmt::format("\n| `{}` | {} |", cells[n].target, name(cells[n].dtype));
    text += fmt::format(" {} |", word(cells[n].state));
  }
  return text + "\n";
}

}  // namespace attnfuse::conformance
