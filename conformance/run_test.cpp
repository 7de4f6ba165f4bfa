// The oracle's judgement of wrong outputs, without a device, and a few cases end to end on the best device
// present.
#include "conformance/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "conformance/cases.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Judged {
  Graph graph;
  Inputs inputs;
  Expectation expectation;
  OutputValues right;
};

Judged judged(const Case& c) {
  auto graph = parse_one(c.program);
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), c.program));
  Inputs inputs = make_inputs(*graph, c);
  auto expectation = expect(*graph, inputs);
  REQUIRE_MESSAGE(expectation.ok(), render(expectation.errors()));
  OutputValues right{expectation->exact.o, expectation->exact.lse};
  return {std::move(graph).value(), std::move(inputs), std::move(expectation).value(), std::move(right)};
}

Case case_of(const std::string& line) {
  const auto parsed = parse_line(line);
  REQUIRE(parsed.ok());
  return *parsed;
}

const char* const kCausal =
    "causal sq=20 skv=12 :: attention t { heads 2 kv_heads 1 head_dim 16 dtype f16 mask causal }";

}  // namespace

TEST_CASE("the naive run passes the judgement that it calibrates, with room") {
  const Judged j = judged(case_of(kCausal));
  const Judgement naive = judge(j.graph, j.expectation, {j.expectation.naive.o, j.expectation.naive.lse});
  CHECK(naive.equal);
  CHECK(naive.worst_ratio < 0.5);
}

TEST_CASE("wrong outputs are caught one by one") {
  const Judged j = judged(case_of(kCausal));
  CHECK(judge(j.graph, j.expectation, j.right).equal);
  const std::size_t rows = 20, dim = 16, row = rows - 1;
  const auto wrong = [&](auto change) {
    OutputValues outputs = j.right;
    change(outputs);
    return !judge(j.graph, j.expectation, outputs).equal;
  };
  CHECK(wrong([&](OutputValues& out) { out.o[row * dim] += 0.01; }));
  CHECK(wrong([&](OutputValues& out) { out.o[row * dim] = NAN; }));
  CHECK(wrong([&](OutputValues& out) { out.lse[row] += std::log(2.0); }));
  CHECK(wrong([&](OutputValues& out) { out.lse[row] *= 1.4426950408889634; }));
  CHECK(wrong([&](OutputValues& out) { out.lse[0] = kInfinity; }));  // an empty row's is -infinity
  CHECK(wrong([&](OutputValues& out) { out.lse[0] = -49993.98; }));
  CHECK(wrong([&](OutputValues& out) { out.o[0] = NAN; }));  // and its output is zero
  CHECK(wrong([&](OutputValues& out) { std::swap(out.o[row * dim], out.o[row * dim + 1]); }));
}

TEST_CASE("rows without keys give zero and minus infinity, by the reference") {
  const Judged j = judged(case_of(kCausal));
  for (std::size_t row = 0; row < 8; ++row) CHECK(j.right.lse[row] == -kInfinity);
  for (std::size_t n = 0; n < 8 * 16; ++n) CHECK(j.right.o[n] == 0);
  CHECK(std::isfinite(j.right.lse[8]));
}

TEST_CASE("poison that no query sees leaves the reference finite") {
  const Judged j =
      judged(case_of("poison sq=9 skv=30 data=poison_masked :: attention t { heads 2 kv_heads 1 head_dim 16 "
                     "dtype f16 mask j < 11 }"));
  int not_finite = 0;
  for_each_index(j.inputs.tensors.at("k").layout.shape, [&](std::span<const std::int64_t> index) {
    not_finite += !std::isfinite(j.inputs.tensors.at("k").get(index));
  });
  CHECK(not_finite > 0);
  for (double value : j.right.o) CHECK(std::isfinite(value));
}

TEST_CASE("poison that some queries see reaches those rows only") {
  const Judged j =
      judged(case_of("poison sq=30 skv=30 data=poison_seen :: attention t { heads 2 kv_heads 1 head_dim 16 "
                     "dtype f16 mask causal }"));
  CHECK(std::isfinite(j.right.lse[0]));
  CHECK(std::isnan(j.right.lse[29]));
}

TEST_CASE("a case of some families passes on the best device present") {
  constexpr std::string_view kTried[] = {"captured", "layouts", "empty_row", "poison", "decode", "repeat"};
  for (const Backend* backend : backends()) {
    auto opened = Executor::open(backend->name());
    if (!opened) continue;
    auto executor = std::move(opened).value();
    for (const Family& family : families()) {
      if (std::ranges::find(kTried, family.name) == std::end(kTried)) continue;
      const Case c = family.cases(CaseSet::quick).back();
      const Outcome outcome = run_case(executor, c);
      CHECK_MESSAGE(outcome.verdict == Verdict::passed, to_line(c) << "\n" << outcome.message);
    }
    return;
  }
  MESSAGE("no device to run on");
}

}  // namespace attnfuse::conformance
