// The table of mutations, what counts as caught, and a few of them on a device that is there.
#include "conformance/mutate.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "conformance/cases.h"

namespace attnfuse::conformance {
namespace {

using State = MutationOutcome::State;

// A device that is there, with a schedule without roles.
std::optional<Machine> some_machine() {
  for (const char* target : {"spirv", "hip-cpu:gfx942"})
    if (auto machine = open_machine(target)) return *machine;
  return std::nullopt;
}

CompileOptions portable() {
  CompileOptions options;
  options.schedule_kind = ScheduleKind::portable;
  return options;
}

}  // namespace

TEST_CASE("every mutation has a name of its own, a family that exists, and one way to break a kernel") {
  std::set<std::string_view> names;
  for (const Mutation& mutation : mutations()) {
    CAPTURE(mutation.name);
    CHECK(names.insert(mutation.name).second);
    CHECK((mutation.program == nullptr) != (mutation.text == nullptr));
    const auto family = std::ranges::find(families(), mutation.family, &Family::name);
    REQUIRE(family != families().end());
    const auto cases = family->cases(CaseSet::quick);
    CHECK(std::ranges::any_of(
        cases, [&](const Case& c) { return to_line(c).find(mutation.among) != std::string::npos; }));
  }
  CHECK(names.size() >= 25);
}

TEST_CASE("a kernel that nothing breaks is missed, and one that cannot be broken is invalid") {
  const auto machine = some_machine();
  if (!machine) {
    MESSAGE("no device to run on");
    return;
  }
  Mutation mutation{.name = "harmless", .broken = "nothing", .family = "shift", .among = "+ 100000"};
  mutation.text = [](const TileProgram&) { return TextEdit{"fused attention, forward", "fused attention"}; };
  const MutationOutcome missed = try_mutation(*machine, portable(), mutation);
  CHECK_MESSAGE(missed.state == State::missed, missed.message);
  CHECK(missed.cases == 3);

  const auto state_with = [&](TextEdit (*text)(const TileProgram&)) {
    mutation.text = text;
    return try_mutation(*machine, portable(), mutation).state;
  };
  CHECK(state_with([](const TileProgram&) { return TextEdit{"attention", "a"}; }) == State::invalid);
  CHECK(state_with([](const TileProgram&) { return TextEdit{"no such text", ""}; }) == State::invalid);
  CHECK(state_with([](const TileProgram&) {
          return TextEdit{"const int g = h", "const int g = no_such_name"};
        }) == State::invalid);
  CHECK(state_with([](const TileProgram&) { return TextEdit{}; }) == State::invalid);
}

TEST_CASE("mutations are caught by their families") {
  const auto machine = some_machine();
  if (!machine) {
    MESSAGE("no device to run on");
    return;
  }
  constexpr std::string_view kTried[] = {"empty-row-unguarded", "causal-top-left", "heads-interleaved",
                                         "values-not-scrubbed"};
  for (const Mutation& mutation : mutations()) {
    if (std::ranges::find(kTried, mutation.name) == std::end(kTried)) continue;
    const MutationOutcome outcome = try_mutation(*machine, portable(), mutation);
    CHECK_MESSAGE(outcome.state == State::caught, mutation.name << ": " << outcome.message);
    CHECK(outcome.caught_by.family == mutation.family);
  }
}

TEST_CASE("mutations about other schedules and devices are left out and counted") {
  const auto machine = some_machine();
  if (!machine) return;
  Mutation mutation{.name = "roles", .broken = "nothing", .family = "shift"};
  mutation.program = [](TileProgram&) { return false; };
  mutation.schedules = Mutation::Schedules::roles;
  const MutationOutcome outcome = try_mutation(*machine, portable(), mutation);
  CHECK(outcome.state == State::not_here);
  MutationOutcome caught;
  caught.state = State::caught;
  CHECK(to_string(summarize(std::vector{outcome, caught})) == "1 of 1 caught; 1 are about other devices");
  CHECK(summarize(std::vector{outcome, caught}).all_caught());
  CHECK_FALSE(summarize(std::vector{outcome}).all_caught());
}

}  // namespace attnfuse::conformance
