// attnfuse show: a program as a graph, after any stage, as Graphviz or LaTeX text, and what each stage costs.
#include <fmt/format.h>

#include "backends/backend.h"
#include "frontend/cli/command.h"
#include "ir/analysis.h"
#include "ir/score_heads.h"
#include "passes/differentiate.h"
#include "passes/passes.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::string spec, after, target;
  bool dot = false, latex = false, time_passes = false;
};

constexpr std::string_view kDifferentiate = "differentiate";

struct Stage {
  std::string name, text;
  double seconds;
};

std::string latex_text(const Graph& graph) {
  std::string text;
  const auto line = [&](const std::string& what, NodeId root) {
    text += fmt::format("{} &= {} \\\\\n", what, latex(graph, root));
  };
  const std::vector<ScoreHead> heads = score_heads(graph);
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const auto named = [&](const char* what) {
      return heads.size() == 1 ? std::string(what) : fmt::format("{}_{{{}}}", what, n + 1);
    };
    line(named("q'"), graph.operand(heads[n].scores, 0));
    line(named("k'"), graph.operand(heads[n].scores, 1));
    line(named("s"), graph.operand(heads[n].normalize, 0));
  }
  line("m", graph.operand(heads[0].normalize, 1));
  line("v'", graph.operand(heads[0].attend, 1));
  return "\\begin{aligned}\n" + text + "\\end{aligned}\n";
}

int show_stages(const Options& options, const Graph& graph) {
  const auto target =
      options.target.empty() ? Result<Target>(all_targets().front()) : find_target(options.target);
  if (!target) return fail(target.errors());
  std::vector<Stage> stages;
  CompileOptions compile;
  compile.observe = [&](std::string_view stage, const std::string& text, double seconds) {
    stages.push_back({std::string(stage), text, seconds});
  };
  const auto program = compile_to_tiles(graph, *target, compile);
  if (!program) return fail(program.errors());
  if (options.time_passes) {
    std::string text;
    for (const Stage& stage : stages)
      text += fmt::format("{:<18} {:8.3f} ms\n", stage.name, stage.seconds * 1e3);
    if (!print_text(text)) return kFailed;
  }
  if (options.after.empty()) return kDone;
  std::string names(kDifferentiate);
  for (const Stage& stage : stages) {
    if (stage.name == options.after) return print_text(stage.text) ? kDone : kFailed;
    names += ", " + stage.name;
  }
  return fail(
      {{"pass.unknown", fmt::format("there is no stage '{}'", options.after), {}, "one of " + names}});
}

// The gradient graph stands beside the stages that lead to a forward kernel.
int show_gradient(const Options& options, const Graph& program) {
  const auto gradient = differentiate(program);
  if (!gradient) return fail(gradient.errors());
  return print_text(options.dot ? dot(*gradient) : print(*gradient)) ? kDone : kFailed;
}

int show(const Options& options) {
  const auto spec = load_spec(options.spec);
  if (!spec) return kFailed;
  if (options.after == kDifferentiate) return show_gradient(options, spec->graph);
  if (options.dot) return print_text(dot(spec->graph)) ? kDone : kFailed;
  if (options.latex) return print_text(latex_text(spec->graph)) ? kDone : kFailed;
  if (options.after.empty() && !options.time_passes) return print_text(print(spec->graph)) ? kDone : kFailed;
  return show_stages(options, spec->graph);
}

}  // namespace

Command show_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "show",
      .about = "The graph of a program, or what a stage makes of it",
      .options = {{"spec", &options->spec, "SPEC", true},
                  {"--after", &options->after, "The text after this pass; differentiate: the gradient graph"},
                  {"--target", &options->target, "TARGET of the stages that depend on one"},
                  {"--dot", &options->dot, "Graphviz text"},
                  {"--latex", &options->latex, "The transforms, score, mask and value as LaTeX"},
                  {"--time-passes", &options->time_passes, "Time of each stage"}},
      .action = [options] { return show(*options); },
  };
}

}  // namespace attnfuse::cli
