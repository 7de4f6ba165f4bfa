#include "conformance/cases.h"

#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "frontend/parser.h"

namespace attnfuse::conformance {

TEST_CASE("every case line is unique and reads back") {
  std::set<std::string> lines;
  for (const Case& c : all_cases(CaseSet::full)) {
    const std::string line = to_line(c);
    CHECK_MESSAGE(lines.insert(line).second, line);
    const auto parsed = parse_line(line);
    REQUIRE_MESSAGE(parsed.ok(), line);
    CHECK(*parsed == c);
  }
}

TEST_CASE("every program of the cases parses") {
  std::set<std::string> programs;
  for (const Case& c : all_cases(CaseSet::full)) programs.insert(c.program);
  for (const std::string& text : programs) {
    const auto graph = parse_one(text);
    CHECK_MESSAGE(graph.ok(), text << "\n" << (graph ? "" : render(graph.errors(), text)));
  }
}

TEST_CASE("every family has cases in both sets, and the full set holds more") {
  for (const Family& family : families()) {
    CAPTURE(family.name);
    CHECK_FALSE(family.cases(CaseSet::quick).empty());
    CHECK(family.cases(CaseSet::full).size() >= family.cases(CaseSet::quick).size());
  }
}

TEST_CASE("every kind of failure is looked for somewhere, and families name no other kinds") {
  std::set<std::string> named;
  for (const Family& family : families()) {
    std::istringstream words{std::string(family.failures)};
    for (std::string word; words >> word;) named.insert(word);
  }
  for (const FailureKind& kind : failure_kinds()) {
    CAPTURE(kind.name);
    CHECK((named.erase(std::string(kind.name)) == 1 || !kind.everywhere.empty()));
  }
  CHECK(named.empty());
}

}  // namespace attnfuse::conformance
