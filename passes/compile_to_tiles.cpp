#include "ir/analysis.h"
#include "passes/passes.h"

#include <chrono>

namespace attnfuse {

Result<TileProgram> compile_to_tiles(const Graph& graph, const Target& target,
                                     const CompileOptions& options) {
  const Result<Graph> optimized = run_graph_passes(graph, options.observe);
  if (!optimized) return optimized.errors();
  Schedule schedule = options.schedule;
  if (schedule.source != "user") {
    const Result<Schedule> chosen = choose_schedule(*optimized, target, options.vector_bytes);
    if (!chosen) return chosen.errors();
    schedule = *chosen;
  }
  const auto start = std::chrono::steady_clock::now();
  Result<TileProgram> program = lower_forward(*optimized, target, schedule);
  if (!program) return program;
  if (Diagnostics mistakes = verify(*program); !mistakes.empty())
    ATTNFUSE_CHECK(false, "lowering broke a rule: " + render(mistakes));
  if (options.observe) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    options.observe("lower-forward", print(*program), seconds.count());
  }
  return program;
}

}  // namespace attnfuse
