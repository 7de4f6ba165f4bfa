// Runs cases on a device and judges them: one outcome per case, never an exception for what a user can cause.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/error_map.h"
#include "conformance/executor.h"

namespace attnfuse::conformance {

enum class Verdict : std::uint8_t {
  passed,
  failed,
  skipped,  // refused at build time, with a diagnostic that says what the target lacks
};

struct Outcome {
  Case tested;
  Verdict verdict = Verdict::passed;
  std::string message;     // why failed or skipped
  double worst_ratio = 0;  // error / budget
  double seconds = 0;
  std::vector<ErrorMap> maps = {};  // where outputs are wrong
};

Outcome run_case(Executor& executor, const Case& c);

// A refusal says that the target cannot hold the program; anything else that stops a build is a failure.
bool is_refusal(const Diagnostics& diagnostics);

struct Summary {
  std::size_t passed = 0, failed = 0, skipped = 0;
  double worst_ratio = 0;
  std::string worst_line;
};
Summary summarize(const std::vector<Outcome>& outcomes);
std::string to_string(const Summary& summary);  // "N passed, N failed, N skipped; ..."

// JUnit XML, one test case per outcome, grouped by family.
std::string junit(const std::vector<Outcome>& outcomes, const std::string& target);

}  // namespace attnfuse::conformance
