#include "ir/analysis.h"
#include "passes/passes.h"

#include <algorithm>
#include <chrono>

namespace attnfuse {

bool waits_for_others(const TileProgram& program) {
  return std::ranges::any_of(program.body, [](const Statement& statement) {
    const auto* chain = std::get_if<Chain>(&statement.kind);
    return chain && chain->wait;
  });
}

namespace {

// Where kernels may start before those ahead of them end, nothing is read until they have.
TileProgram after_others(TileProgram program) {
  if (program.target.pipeline && !waits_for_others(program))
    program.body.insert(program.body.begin(), Statement{Chain{true}});
  return program;
}

}  // namespace

Result<TileProgram> compile_to_tiles(const Graph& graph, const Target& target,
                                     const CompileOptions& options) {
  const Result<Graph> optimized = run_graph_passes(graph, options.observe);
  if (!optimized) return optimized.errors();
  Schedule schedule = options.schedule;
  if (schedule.source.empty()) {
    const Result<Schedule> chosen =
        choose_schedule(*optimized, target, options.vector_bytes, kind_for(options), options.sq);
    if (!chosen) return chosen.errors();
    schedule = *chosen;
  }
  const auto start = std::chrono::steady_clock::now();
  Result<TileProgram> program = lower_forward(*optimized, target, schedule, options.around);
  if (!program) return program;
  if (options.chained) program = after_others(std::move(program).value());
  if (Diagnostics mistakes = verify(*program); !mistakes.empty())
    ATTNFUSE_CHECK(false, "lowering broke a rule: " + render(mistakes));
  if (options.observe) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    options.observe("lower-forward", print(*program), seconds.count());
  }
  return program;
}

}  // namespace attnfuse
