#include <map>

#include <fmt/format.h>

#include "conformance/markup.h"
#include "conformance/run.h"

namespace attnfuse::conformance {
namespace {

std::string test_case(const Outcome& outcome) {
  const std::string open =
      fmt::format(R"(    <testcase classname="{}" name="{}" time="{:.3f}")", escaped(outcome.tested.family),
                  escaped(to_line(outcome.tested)), outcome.seconds);
  switch (outcome.verdict) {
    case Verdict::passed:
      return open + "/>\n";
    case Verdict::failed:
      return fmt::format("{}><failure message=\"{}\"/></testcase>\n", open, escaped(outcome.message));
    case Verdict::skipped:
      return fmt::format("{}><skipped message=\"{}\"/></testcase>\n", open, escaped(outcome.message));
  }
  return {};
}

}  // namespace

std::string junit(const std::vector<Outcome>& outcomes, const std::string& target) {
  std::map<std::string, std::vector<const Outcome*>> families;
  for (const Outcome& outcome : outcomes) families[outcome.tested.family].push_back(&outcome);
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const auto& [family, members] : families) {
    std::size_t failures = 0, skips = 0;
    std::string body;
    for (const Outcome* outcome : members) {
      failures += outcome->verdict == Verdict::failed;
      skips += outcome->verdict == Verdict::skipped;
      body += test_case(*outcome);
    }
    text += fmt::format(
        "  <testsuite name=\"{}.{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n{}  </testsuite>\n",
        escaped(target), escaped(family), members.size(), failures, skips, body);
  }
  return text + "</testsuites>\n";
}

}  // namespace attnfuse::conformance
