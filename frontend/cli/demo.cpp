// attnfuse demo: one spec, compiled for every target and executed on the best device present.
#include <chrono>

#include <fmt/format.h>

#include "backends/backend.h"
#include "conformance/case.h"
#include "conformance/examples.h"
#include "conformance/run.h"
#include "frontend/cli/best_device.h"
#include "frontend/cli/command.h"
#include "passes/passes.h"

namespace attnfuse::cli {
namespace {

constexpr const char* kExample = "llama3_8b";
constexpr const char* kBackends[] = {"cuda", "hip", "spirv"};

// One line about one target; false when something broke.
bool compile_for(const Graph& graph, const Target& target) {
  const auto begin = std::chrono::steady_clock::now();
  const auto milliseconds = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  const Backend* backend = find_backend(target.backend);
  const auto broken = [&](const Diagnostics& diagnostics) {
    fmt::print("  {:<18} {}\n", target.name, render(diagnostics));
    return false;
  };
  const auto program = compile_to_tiles(graph, target);
  if (!program) return broken(program.errors());
  const auto source = backend->emit(*program);
  if (!source) return broken(source.errors());
  fmt::print("  {:<18} {:>6} bytes of source in {:>5.1f} ms", target.name, source->text.size(),
             milliseconds());
  std::fflush(stdout);
  const auto binary = backend->assemble(*source, target);
  if (binary)
    fmt::print(", {} bytes of {} in {:.0f} ms{}\n", binary->bytes.size(), binary->format, milliseconds(),
               binary->resources.spill_bytes == 0 ? ", nothing spilled" : "");
  else if (binary.errors().front().code == "toolkit.missing")
    fmt::print("; {}\n", binary.errors().front().message);
  else
    fmt::print("\n");
  return binary || binary.errors().front().code == "toolkit.missing" || broken(binary.errors());
}

int demo() {
  const auto spec = load_spec(kExample);
  if (!spec) return kFailed;
  fmt::print("{}\nCompiled for every machine:\n", spec->text);
  bool good = true;
  for (const char* name : kBackends)
    for (const Target& target : find_backend(name)->targets())
      good = compile_for(spec->graph, target) && good;

  const auto best = best_device();
  if (!best) {
    fmt::print("\nNo device to execute on:\n");
    return fail(best.errors());
  }
  auto opened = conformance::Executor::open(*best);
  if (!opened) return fail(opened.errors());
  auto executor = std::move(opened).value();
  conformance::Case c;
  c.family = "demo";
  c.sq = 100;
  c.skv = 150;
  c.program = conformance::one_line(spec->text);
  fmt::print("\nExecuted on {} ({}), b={} sq={} skv={}, random inputs:\n", executor.device().name(),
             executor.target().name, c.batch, c.sq, c.skv);
  const conformance::Outcome outcome = conformance::run_case(executor, c);
  if (outcome.verdict != conformance::Verdict::passed) {
    fmt::print("  not equal to the CPU reference: {}\n", outcome.message);
    return kFailed;
  }
  fmt::print(
      "  o and lse equal the double-precision CPU reference: worst error {:.2f} of what {} rounding allows\n",
      outcome.worst_ratio, name(spec->graph.info().dtype));
  return good ? kDone : kFailed;
}

}  // namespace

Command demo_command() {
  return {.name = "demo",
          .about = "Llama-3-8B attention, for every target and on the best device present",
          .action = demo};
}

}  // namespace attnfuse::cli
