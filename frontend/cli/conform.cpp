// attnfuse conform: proves a device against the reference, or lists what a target supports.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "conformance/cases.h"
#include "conformance/crash_note.h"
#include "conformance/fuzz.h"
#include "conformance/html.h"
#include "conformance/mutate.h"
#include "conformance/parallel.h"
#include "conformance/run.h"
#include "conformance/support.h"
#include "frontend/cli/best_device.h"
#include "frontend/cli/command.h"
#include "frontend/cli/rotation.h"

namespace attnfuse::cli {
namespace {

using namespace conformance;

enum class Mode : std::uint8_t { check, support, mutate, random };

struct Options {
  std::string target, filter, line, report, html, shard = "0/1";
  Mode mode = Mode::check;
  std::uint64_t seed = 0;
  std::uint64_t random = 0;  // so many cases; 0: for some minutes
  int minutes = 1;
  int jobs = 1;
  Rotation rotation = Rotation::automatic;
  bool full = false, list = false, families = false;
  ScheduleKind schedule = ScheduleKind::automatic;
};

// Of the cases, those whose number is I modulo N.
Status keep_shard(std::string_view text, std::vector<Case>& cases) {
  unsigned shard = 0, shards = 0;
  char extra = 0;
  const int read = std::sscanf(std::string(text).c_str(), "%u/%u%c", &shard, &shards, &extra);
  if (read != 2 || shard >= shards)
    return Diagnostic{
        "conform.shard", fmt::format("'{}' is no share of the cases", text), {}, "I/N with 0 <= I < N"};
  std::erase_if(cases, [&, n = 0U](const Case&) mutable { return n++ % shards != shard; });
  return Unit{};
}

Result<std::vector<Case>> chosen_cases(const Options& options) {
  std::vector<Case> chosen;
  if (!options.line.empty()) {
    auto parsed = parse_line(options.line);
    if (!parsed) return parsed.errors();
    chosen.push_back(std::move(parsed).value());
  } else {
    for (Case& c : all_cases(options.full ? CaseSet::full : CaseSet::quick)) {
      if (options.seed != 0) c.seed = options.seed;
      if (options.rotation != Rotation::automatic) c.rotation = options.rotation;
      if (to_line(c).find(options.filter) != std::string::npos) chosen.push_back(std::move(c));
    }
  }
  if (const Status kept = keep_shard(options.shard, chosen); !kept) return kept.errors();
  if (chosen.empty())
    return Diagnostic{"conform.no-case",
                      fmt::format("no case contains '{}'", options.filter),
                      {},
                      "see: attnfuse conform --list"};
  return chosen;
}

int list(const std::vector<Case>& cases) {
  std::string text;
  for (const Case& c : cases) text += to_line(c) + "\n";
  return print_text(text) ? kDone : kFailed;
}

void print_outcome(const Outcome& outcome, const std::string& target) {
  switch (outcome.verdict) {
    case Verdict::passed:
      return;
    case Verdict::skipped:
      fmt::print("SKIP {}\n  {}\n", to_line(outcome.tested), outcome.message);
      break;
    case Verdict::failed:
      fmt::print("FAIL {}\n  {}\n  rerun: {}\n", to_line(outcome.tested), outcome.message,
                 rerun_command(outcome.tested, target));
      break;
  }
  std::fflush(stdout);
}

Result<std::vector<Executor>> open_executors(const Options& options) {
  std::vector<Executor> executors;
  for (int worker = 0; worker < options.jobs; ++worker) {
    auto executor = Executor::open(options.target, with_schedule(options.schedule));
    if (!executor) return executor.errors();
    executors.push_back(std::move(executor).value());
  }
  return executors;
}

// What each worker is at, for the crash note and the line of progress.
class Watch {
 public:
  // total = 0: nobody knows.
  Watch(std::string target, std::size_t workers, std::size_t total)
      : target_(std::move(target)), at_(workers), total_(total) {}

  void begins(std::size_t worker, const Case& c) {
    at_[worker] = rerun_command(c, target_);
    std::string note = fmt::format("\nCRASH after {} cases, in one of\n", done_);
    for (const std::string& command : at_) note += "  " + command + "\n";
    leave_crash_note(note);
  }
  // A terminal shows where it stands all the time, a log ten times.
  void ended(const Outcome& outcome) {
    if (is_terminal_) fmt::print(stderr, "\r{:60}\r", "");
    print_outcome(outcome, target_);
    ++done_;
    if (total_ == 0) {
      if (is_terminal_ || done_ % 100 == 0) fmt::print(stderr, "{} cases{}", done_, is_terminal_ ? "" : "\n");
    } else if (is_terminal_)
      fmt::print(stderr, "{}/{} {}", done_, total_, outcome.tested.family);
    else if (done_ * 10 / total_ != (done_ - 1) * 10 / total_)
      fmt::print(stderr, "{}/{} {}\n", done_, total_, outcome.tested.family);
  }
  void end() const {
    if (is_terminal_) fmt::print(stderr, "\r{:60}\r", "");
  }

 private:
  std::string target_;
  std::vector<std::string> at_;
  std::size_t total_, done_ = 0;
  bool is_terminal_ = isatty(STDERR_FILENO) != 0;
};

// What is asked for beside the text on stdout.
Status write_reports(const Options& options, const Report& report) {
  if (!options.report.empty())
    if (auto status = write_file(options.report, junit(report.outcomes, report.target)); !status)
      return status;
  return options.html.empty() ? Status(Unit{}) : write_file(options.html, html(report));
}

// As the options of another run say it.
std::string target_arguments(const Options& options, const Executor& executor) {
  return executor.target().name + schedule_arguments(options.schedule);
}

int finish(const Options& options, Report report) {
  const Summary summary = summarize(report.outcomes);
  if (!summary.worst_line.empty()) fmt::print("worst: {}\n", summary.worst_line);
  fmt::print("{}\n", to_string(summary));
  if (auto status = write_reports(options, report); !status) return fail(status.errors());
  return summary.failed == 0 && summary.passed > 0 ? kDone : kFailed;
}

std::vector<Outcome> watched_run(std::vector<Executor>& executors, const std::vector<Case>& cases,
                                 Watch& watch) {
  return run_cases(executors, cases,
                   {[&](std::size_t worker, const Case& c) { watch.begins(worker, c); },
                    [&](const Outcome& outcome) { watch.ended(outcome); }});
}

int check(const Options& options, const std::vector<Case>& cases) {
  auto opened = open_executors(options);
  if (!opened) return fail(opened.errors());
  auto executors = std::move(opened).value();
  const std::string target = target_arguments(options, executors.front());
  const std::string device = executors.front().device().name();
  fmt::print("{} cases on {}, {}\n", cases.size(), device, target);
  Watch watch(target, executors.size(), cases.size());
  auto outcomes = watched_run(executors, cases, watch);
  watch.end();
  return finish(options, {device, target, std::move(outcomes), {}});
}

// Random cases, then the smallest case of each failure.
int run_random(const Options& options) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kAtOnce = 8;  // per worker; the clock is looked at in between
  auto opened = open_executors(options);
  if (!opened) return fail(opened.errors());
  auto executors = std::move(opened).value();
  const std::string target = target_arguments(options, executors.front());
  Report report{executors.front().device().name(), target, {}, {}};
  std::uint64_t seed = options.seed == 0 ? 1 : options.seed;
  fmt::print("random cases from seed {} on {}, {}\n", seed, report.device, target);
  Watch watch(target, executors.size(), 0);
  const auto end = Clock::now() + std::chrono::minutes(options.minutes);
  const auto left = [&] {
    const std::size_t batch = kAtOnce * executors.size();
    if (options.random == 0) return Clock::now() < end ? batch : 0;
    return std::min<std::size_t>(batch, options.random - report.outcomes.size());
  };
  while (const std::size_t batch = left()) {
    std::vector<Case> cases;
    for (std::size_t n = 0; n < batch; ++n) {
      cases.push_back(random_case(seed++));
      if (options.rotation != Rotation::automatic) cases.back().rotation = options.rotation;
    }
    for (Outcome& outcome : watched_run(executors, cases, watch))
      report.outcomes.push_back(std::move(outcome));
    // Each program comes once: what was compiled for it is of no use any more.
    for (Executor& executor : executors) executor.forget();
  }
  watch.end();
  const auto fails = [&](const Case& c) {
    executors.front().forget();
    return run_case(executors.front(), c).verdict == Verdict::failed;
  };
  for (const Outcome& outcome : report.outcomes)
    if (outcome.verdict == Verdict::failed) {
      const Case smallest = shrink(outcome.tested, fails);
      fmt::print("smallest of seed {}: {}\n  {}\n", outcome.tested.seed, rerun_command(smallest, target),
                 run_case(executors.front(), smallest).message);
      std::fflush(stdout);
    }
  fmt::print("seeds up to {}\n", seed - 1);
  return finish(options, std::move(report));
}

int run_mutations(const Options& options) {
  auto opened = Executor::open(options.target, with_schedule(options.schedule));
  if (!opened) return fail(opened.errors());
  const std::string target = target_arguments(options, *opened);
  Report report{opened->device().name(), target, {}, {}};
  fmt::print("mutations on {}, {}\n", report.device, target);
  for (const Mutation& mutation : mutations()) {
    if (mutation.name.find(options.filter) == std::string_view::npos) continue;
    report.mutations.push_back(try_mutation(opened->machine(), with_schedule(options.schedule), mutation));
    fmt::print("{}\n", to_string(report.mutations.back()));
    std::fflush(stdout);
  }
  const MutationSummary summary = summarize(report.mutations);
  fmt::print("{}\n", to_string(summary));
  if (auto status = write_reports(options, report); !status) return fail(status.errors());
  return summary.all_caught() ? kDone : kFailed;
}

// Of every target what can be emitted, which needs neither toolkit nor device; of a target that is asked for
// all that can be done here.
int support(const Options& options, bool all) {
  std::vector<Target> targets = all_targets();
  std::optional<Executor> executor;
  if (!all) {
    const auto target = find_target(options.target);
    if (!target) return fail(target.errors());
    if (auto opened = Executor::open(options.target, with_schedule(options.schedule)))
      executor = std::move(opened).value();
    targets = {executor ? executor->target() : *target};
  }
  bool broken = false;
  const auto cells =
      support_matrix(targets, all ? SupportDepth::source : SupportDepth::binary,
                     executor ? &*executor : nullptr, [&](const SupportCell& cell) {
                       if (cell.state != SupportCell::State::broken) return;
                       broken = true;
                       fmt::print(stderr, "FAIL {} {} {}/{}: {}\n", cell.target, name(cell.dtype),
                                  cell.head_dim, cell.v_head_dim, cell.message);
                     });
  return print_text(support_table(cells)) && !broken ? kDone : kFailed;
}

int conform(Options options) {
  if (options.families) return print_text(families_markdown()) ? kDone : kFailed;
  const bool any_target = options.target.empty();
  if (any_target) {
    auto best = best_device();
    options.target = best ? *best : all_targets().front().name;
  }
  if (options.mode == Mode::support) return support(options, any_target);
  if (options.mode == Mode::mutate) return run_mutations(options);
  if (options.mode == Mode::random || options.random > 0) return run_random(options);
  const auto cases = chosen_cases(options);
  if (!cases) return fail(cases.errors());
  return options.list ? list(*cases) : check(options, *cases);
}

}  // namespace

Command conform_command() {
  auto options = std::make_shared<Options>();
  return {
      .name = "conform",
      .about = "Proves a device against the reference",
      .options = {{"--target", &options->target, "TARGET; the best device present when left out"},
                  {"--mode",
                   choice<Mode>(options->mode, {{"check", Mode::check},
                                                {"support", Mode::support},
                                                {"mutate", Mode::mutate},
                                                {"random", Mode::random}}),
                   "check runs cases; support prints what can be emitted, with --target also what compiles "
                   "and passes; mutate breaks kernels on purpose, and the cases must notice; random runs "
                   "random programs"},
                  {"--filter", &options->filter,
                   "Only cases whose line contains this text, or mutations whose name does"},
                  {"--case", &options->line, "This one case line"},
                  {"--seed", &options->seed,
                   "Seed of every case instead of its own; of the first random one"},
                  {"--report", &options->report, "JUnit XML file"},
                  {"--html", &options->html, "A page about the run, in one file"},
                  {"--random", &options->random, "This many random cases; as --mode random"},
                  {.name = "--minutes",
                   .value = &options->minutes,
                   .about = "How long random programs are run; failing ones are shrunk afterwards",
                   .range = Range{1, 10000}},
                  {.name = "--jobs",
                   .value = &options->jobs,
                   .about = "Cases at once, each on a device object of its own",
                   .range = Range{1, 64}},
                  {"--shard", &options->shard,
                   "I/N: every N-th case from the I-th on, to share a run among processes"},
                  rotation_option(options->rotation, Sizing::known),
                  {"--full", &options->full, "All cases; minutes on a GPU, hours on a CPU"},
                  {"--families", &options->families, "Print what the families of cases promise, as Markdown"},
                  {"--list", &options->list, "Print the case lines instead of running them"},
                  schedule_option(options->schedule)},
      .action = [options] { return conform(*options); },
  };
}

}  // namespace attnfuse::cli
