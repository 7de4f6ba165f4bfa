#include "frontend/cli/bench_rotation.h"

#include <filesystem>

#include <fmt/format.h>

#include "bench/rotation.h"
#include "frontend/cli/best_device.h"

namespace attnfuse::cli {
namespace {

struct Options {
  std::string target, directory = ".";
  bench::RotationSweep sweep;
};

int bench_rotation(Options options) {
  if (options.target.empty()) {
    auto best = best_device();
    if (!best) return fail(best.errors());
    options.target = *best;
  }
  for (int group : options.sweep.groups)
    if (options.sweep.heads % group != 0)
      return fail({{"bench.group",
                    fmt::format("{} heads do not divide into groups of {}", options.sweep.heads, group),
                    {},
                    "give --heads a multiple of every group"}});
  auto machine = open_machine(options.target);
  if (!machine) return fail(machine.errors());
  const auto report = bench::bench_rotation(*machine, options.sweep, [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  });
  if (!report) return fail(report.errors());
  fmt::print("{}", bench::summary(*report));
  const std::filesystem::path folder(options.directory);
  for (const auto& [file, text] :
       {std::pair{"rotation.json", bench::json(*report)}, std::pair{"rotation.svg", bench::svg(*report)}}) {
    const std::string path = (folder / file).string();
    if (auto status = write_file(path, text); !status) return fail(status.errors());
    fmt::print("{}\n", path);
  }
  return kDone;
}

}  // namespace

Command bench_rotation_command() {
  auto options = std::make_shared<Options>();
  auto& sweep = options->sweep;
  const auto number = [](const char* name, auto& value, const char* about, int most) {
    return Option{.name = name, .value = &value, .about = about, .range = Range{1, most}};
  };
  return {
      .name = "rotation",
      .about = "Every way to rotate queries and keys, predicted and measured, over lengths and groups",
      .options = {{"--target", &options->target, "TARGET; the best device present when left out"},
                  {"-o,--output", &options->directory, "Folder for rotation.json and rotation.svg"},
                  {.name = "--seconds",
                   .value = &sweep.seconds,
                   .about = "Time for all of it; points past it are only predicted",
                   .range = Range{0, 86400}},
                  number("--heads", sweep.heads, "Query heads", 1024),
                  {.name = "--head-dim",
                   .value = &sweep.head_dim,
                   .about = "Head dim",
                   .one_of = {32, 64, 96, 128, 192, 256}},
                  number("--groups", sweep.groups, "Query heads to a key head, one family of curves each",
                         1024),
                  number("--first", sweep.first, "Shortest length", 1 << 20),
                  number("--last", sweep.last, "Longest length", 1 << 20),
                  number("--tokens", sweep.tokens, "Batch times length of a prefill", 1 << 24),
                  number("--decode-batch", sweep.decode_batch, "Batch of decoding", 4096)},
      .action = [options] { return bench_rotation(*options); },
  };
}

}  // namespace attnfuse::cli
