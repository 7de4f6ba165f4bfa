#include <chrono>

#include "ir/analysis.h"
#include "passes/passes.h"

namespace attnfuse {
namespace {

constexpr GraphPass kPasses[] = {
    {"simplify",
     "folds constants, identities and common subexpressions; first, so that later passes match few forms",
     simplify},
    {"expand-partner", "moves pairing along d down to the inputs, where a kernel does it while it loads",
     expand_partner},
    {"tabulate",
     "computes costly expressions of d once, in double precision; after all index arithmetic on d exists",
     tabulate},
    {"remove-dead", "drops what no output needs; last, so that lowering sees live values only", remove_dead},
};

}  // namespace

std::span<const GraphPass> graph_passes() { return kPasses; }

Result<Graph> run_graph_passes(const Graph& graph, const StageObserver& observe) {
  if (Diagnostics mistakes = verify(graph); !mistakes.empty()) return mistakes;
  Graph current = graph;
  for (const GraphPass& pass : kPasses) {
    const auto start = std::chrono::steady_clock::now();
    Result<Graph> next = pass.run(current);
    if (!next) return next;
    // Folding may show that a legal program ignores its input (select(true, 0, x)); that is the user's to
    // mend.
    if (Diagnostics mistakes = verify(*next); !mistakes.empty()) {
      for (Diagnostic& mistake : mistakes) mistake.message += " (after " + std::string(pass.name) + ")";
      return mistakes;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    current = std::move(next).value();
    if (observe) observe(pass.name, print(current), seconds.count());
  }
  return current;
}

}  // namespace attnfuse
