// attnfuse bench: device time of our kernels.
#include "conformance/examples.h"

#include <fmt/format.h>

#include "bench/measure.h"
#include "frontend/cli/bench_rotation.h"
#include "frontend/cli/best_device.h"
#include "frontend/cli/command.h"
#include "frontend/cli/rotation.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::vector<std::string> specs;
  std::string target, shape = "b=1,sq=1024,skv=1024";
  int launches = 20;
  Rotation rotation = Rotation::automatic;
  ScheduleKind schedule = ScheduleKind::automatic;
};

int bench(Options options) {
  const auto sizes = parse_shape(options.shape);
  if (!sizes) return fail(sizes.errors());
  if (options.target.empty()) {
    auto best = best_device();
    if (!best) return fail(best.errors());
    options.target = *best;
  }
  auto opened = conformance::Executor::open(options.target, with_schedule(options.schedule));
  if (!opened) return fail(opened.errors());
  auto executor = std::move(opened).value();
  if (options.specs.empty())
    for (const auto& example : conformance::examples())
      if (!example.is_gym()) options.specs.emplace_back(example.name);

  fmt::print("{}, {}, b={} sq={} skv={}, {} launches\n", executor.device().name(), executor.target().name,
             sizes->batch, sizes->sq, sizes->skv, options.launches);
  fmt::print("{:<24} {:>11} {:>10} {:>10} {:>10}  schedule\n", "program", "median ms", "min ms", "max ms",
             "TFLOP/s");
  int result = kDone;
  for (const std::string& name : options.specs) {
    const auto spec = load_spec(name);
    if (!spec) return kFailed;
    const auto time =
        bench::measure(executor, spec->graph, spec->text, *sizes, options.launches, options.rotation);
    if (!time) {
      result = fail(time.errors(), spec->text);
      continue;
    }
    const Schedule& schedule = time->schedule;
    fmt::print("{:<24} {:>11.4f} {:>10.4f} {:>10.4f} {:>10.3f}  {} {}x{} {} warps\n", spec->graph.info().name,
               time->median_ms, time->min_ms, time->max_ms, time->tflops(), schedule.name, schedule.block_q,
               schedule.block_k, schedule.warps);
    std::fflush(stdout);
  }
  return result;
}

}  // namespace

Command bench_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "bench",
      .about = "Device time of our kernels",
      .options = {{"spec", &options->specs, "SPECs; the examples of models when left out"},
                  {"--target", &options->target, "TARGET; the best device present when left out"},
                  {"--shape", &options->shape, "For example b=1,sq=4096,skv=4096"},
                  {.name = "--launches",
                   .value = &options->launches,
                   .about = "Timed launches",
                   .range = Range{1, 10000}},
                  rotation_option(options->rotation, Sizing::known),
                  schedule_option(options->schedule)},
      .action = [options] { return bench(*options); },
      .commands = {bench_rotation_command()},
  };
}

}  // namespace attnfuse::cli
