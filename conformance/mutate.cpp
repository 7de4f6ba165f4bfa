#include "conformance/mutate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "conformance/cases.h"

namespace attnfuse::conformance {
namespace {

using State = MutationOutcome::State;

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

// A backend whose kernels are broken. Its binaries are not cached.
class MutatedBackend : public Backend {
 public:
  MutatedBackend(const Backend& backend, const Mutation& mutation) : backend_(backend), mutation_(mutation) {}

  std::string name() const override { return backend_.name(); }
  std::vector<Target> targets() const override { return backend_.targets(); }
  int device_count() const override { return backend_.device_count(); }
  Result<std::shared_ptr<Device>> open(int ordinal) const override { return backend_.open(ordinal); }

  Result<Source> emit(const TileProgram& program) const override {
    TileProgram broken = program;
    if (mutation_.program != nullptr && mutation_.program(broken)) is_applied_ = true;
    auto source = emitted(broken);
    if (!source || mutation_.text == nullptr) return source;
    const TextEdit edit = mutation_.text(program);
    if (edit.find.empty()) return source;
    Source edited = std::move(source).value();
    if (const std::size_t count = occurrences(edited.text, edit.find); count != 1)
      return mistake(fmt::format("'{}' occurs {} times in {}", edit.find, count, edited.entry));
    edited.text.replace(edited.text.find(edit.find), edit.find.size(), edit.replace);
    is_applied_ = true;
    return edited;
  }

  Result<Binary> assemble(const Source& source, const Target& target) const override {
    auto binary = backend_.assemble(source, target);
    return binary ? std::move(binary) : mistake(render(binary.errors()));
  }

  bool is_applied() const { return is_applied_; }
  const std::string& mistake() const { return mistake_; }

 private:
  Diagnostic mistake(std::string what) const {
    mistake_ = std::move(what);
    return {"mutation.invalid", mistake_, {}, ""};
  }

  Result<Source> emitted(const TileProgram& broken) const {
    try {
      return backend_.emit(broken);
    } catch (const InternalError& error) {
      return mistake(error.what());
    }
  }

  const Backend& backend_;
  const Mutation& mutation_;
  mutable bool is_applied_ = false;
  mutable std::string mistake_;
};

std::vector<Case> cases_about(const Mutation& mutation) {
  const auto family = std::ranges::find(families(), mutation.family, &Family::name);
  ATTNFUSE_CHECK(family != families().end(), fmt::format("there is no family {}", mutation.family));
  std::vector<Case> cases = family->cases(CaseSet::quick);
  for (Case& c : cases) c.family = family->name;
  std::erase_if(cases, [&](const Case& c) { return to_line(c).find(mutation.among) == std::string::npos; });
  return cases;
}

// The kind of schedule that has what the mutation breaks; none: not on this machine.
std::optional<ScheduleKind> schedule_for(const Mutation& mutation, const Target& target, ScheduleKind asked) {
  switch (mutation.schedules) {
    case Mutation::Schedules::all:
      return asked;
    case Mutation::Schedules::portable:
      return asked == ScheduleKind::pipelined ? std::nullopt : std::optional(ScheduleKind::portable);
    case Mutation::Schedules::roles:
      return asked == ScheduleKind::portable || !target.pipeline ? std::nullopt
                                                                 : std::optional(ScheduleKind::pipelined);
  }
  return std::nullopt;
}

void run(const Machine& machine, const CompileOptions& options, MutationOutcome& outcome) {
  const Mutation& mutation = *outcome.mutation;
  const MutatedBackend backend(*machine.backend, mutation);
  Executor broken = Executor::on({&backend, machine.device, machine.target}, options);
  bool was_applied = false;
  for (const Case& c : cases_about(mutation)) {
    const Outcome tested = run_case(broken, c);
    ++outcome.cases;
    was_applied = backend.is_applied();
    if (!backend.mistake().empty()) {
      outcome.state = State::invalid;
      outcome.message = backend.mistake();
      return;
    }
    if (tested.verdict != Verdict::failed) continue;
    outcome.caught_by = c;
    outcome.message = tested.message;
    Executor right = Executor::on(machine, options);
    const Outcome control = run_case(right, c);
    outcome.state = control.verdict == Verdict::passed && was_applied ? State::caught : State::invalid;
    if (outcome.state == State::invalid) outcome.message = "fails without the mutation: " + control.message;
    return;
  }
  outcome.state = was_applied ? State::missed : State::invalid;
  outcome.message = was_applied ? "every case passes" : "no case has anything of the kind";
}

}  // namespace

MutationOutcome try_mutation(const Machine& machine, const CompileOptions& options,
                             const Mutation& mutation) {
  MutationOutcome outcome;
  outcome.mutation = &mutation;
  const auto begin = std::chrono::steady_clock::now();
  const auto kind = schedule_for(mutation, machine.target, options.schedule_kind);
  if (!kind || (mutation.devices == Mutation::Devices::watched && !machine.device->watches_kernels())) {
    outcome.state = State::not_here;
    return outcome;
  }
  CompileOptions chosen = options;
  chosen.schedule_kind = *kind;
  run(machine, chosen, outcome);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

MutationSummary summarize(const std::vector<MutationOutcome>& outcomes) {
  MutationSummary summary;
  for (const MutationOutcome& outcome : outcomes) switch (outcome.state) {
      case State::caught:
        ++summary.caught;
        break;
      case State::missed:
        ++summary.missed;
        break;
      case State::invalid:
        ++summary.invalid;
        break;
      case State::not_here:
        ++summary.not_here;
        break;
    }
  return summary;
}

std::string to_string(const MutationSummary& summary) {
  std::string text =
      fmt::format("{} of {} caught", summary.caught, summary.caught + summary.missed + summary.invalid);
  if (summary.not_here > 0) text += fmt::format("; {} are about other devices", summary.not_here);
  return text;
}

std::string to_string(const MutationOutcome& outcome) {
  constexpr std::string_view kStates[] = {"caught", "MISSED", "INVALID", "-"};
  const Mutation& mutation = *outcome.mutation;
  std::string line = fmt::format("{:<8} {:<32} {:<12} {:>5.1f} s  {}", kStates[std::size_t(outcome.state)],
                                 mutation.name, mutation.family, outcome.seconds, mutation.broken);
  switch (outcome.state) {
    case State::caught:
    case State::not_here:
      return line;
    case State::missed:
    case State::invalid:
      return fmt::format("{}\n  {} ({} cases)", line, outcome.message, outcome.cases);
  }
  return line;
}

}  // namespace attnfuse::conformance
