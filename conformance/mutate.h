// Mutate mode: every mutation must be caught by its family of cases, and the kernel as it should be passes
// the case that catches it. What is not caught is a hole of the suite.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/mutations/mutation.h"
#include "conformance/run.h"

namespace attnfuse::conformance {

struct MutationOutcome {
  enum class State : std::uint8_t {
    caught,
    missed,   // every case passed
    invalid,  // nothing to break in any case, a text that occurs twice, a kernel that does not assemble, or a
              // case that fails without the mutation
    not_here  // for other devices or schedules
  };
  const Mutation* mutation = nullptr;
  State state = State::missed;
  Case caught_by;       // the case that failed
  std::string message;  // how it failed, or why the mutation is invalid
  int cases = 0;        // that were run
  double seconds = 0;
};

// On the machine, with the kind of schedule that `options` ask for where the mutation is about all.
MutationOutcome try_mutation(const Machine& machine, const CompileOptions& options, const Mutation& mutation);

struct MutationSummary {
  std::size_t caught = 0, missed = 0, invalid = 0, not_here = 0;
  bool all_caught() const { return missed == 0 && invalid == 0 && caught > 0; }
};
MutationSummary summarize(const std::vector<MutationOutcome>& outcomes);
std::string to_string(const MutationSummary& summary);  // "N of N caught; N for other devices"

// One line, or two where something is wrong.
std::string to_string(const MutationOutcome& outcome);

}  // namespace attnfuse::conformance
