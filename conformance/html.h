// A page about a run: one file, without scripts and without anything from elsewhere.
#pragma once

#include <string>
#include <vector>

#include "conformance/mutate.h"
#include "conformance/run.h"

namespace attnfuse::conformance {

struct Report {
  std::string device, target;  // the target as the tool's options say it
  std::vector<Outcome> outcomes;
  std::vector<MutationOutcome> mutations;
};

// Counts, families by dtype, the worst error of each family, mutations, and of each failure an error map and
// the command that reruns it.
std::string html(const Report& report);

// The command that reruns a case.
std::string rerun_command(const Case& c, const std::string& target);

}  // namespace attnfuse::conformance
