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

void add_bench_rotation(CLI::App& bench, Action& action) {
  auto* command = bench.add_subcommand(
      "rotation", "Every way to rotate queries and keys, predicted and measured, over lengths and groups");
  auto options = std::make_shared<Options>();
  auto& sweep = options->sweep;
  command->add_option("--target", options->target, "TARGET; the best device present when left out");
  command->add_option("-o,--output", options->directory, "Folder for rotation.json and rotation.svg")
      ->capture_default_str();
  command->add_option("--seconds", sweep.seconds, "Time for all of it; points past it are only predicted")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--heads", sweep.heads, "Query heads")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--head-dim", sweep.head_dim, "Head dim")
      ->check(CLI::IsMember({32, 64, 96, 128, 192, 256}))
      ->capture_default_str();
  command->add_option("--groups", sweep.groups, "Query heads to a key head, one family of curves each")
      ->check(CLI::Range(1, 1024))
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--first", sweep.first, "Shortest length")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--last", sweep.last, "Longest length")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--tokens", sweep.tokens, "Batch times length of a prefill")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--decode-batch", sweep.decode_batch, "Batch of decoding")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->callback([&action, options] { action = [options] { return bench_rotation(*options); }; });
}

}  // namespace attnfuse::cli
