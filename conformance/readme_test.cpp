// The C++ example of the README, which prints the part between the markers: it says what the example in text
// says, and it runs.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "conformance/oracle.h"
#include "frontend/attention.h"
#include "frontend/parser.h"
#include "ir/analysis.h"
#include "runtime/execute.h"
#include "runtime/machine.h"

namespace attnfuse {
namespace {

// ---- excerpt
Result<Graph> alibi_window() {
  auto program = attention("alibi_window", {.heads = 12, .kv_heads = 4, .head_dim = 64, .dtype = DType::f16});
  const Captured slope = program.param("slope", DType::f32, {Size::heads});
  return program.query(rope({.theta = 1e4}))
      .key(rope({.theta = 1e4}))
      .score(scale(0.125))
      .score([&](Score x) { return x + slope[x.h()] * (x.j() - x.i()); })
      .mask([](Pair p) { return p.i() >= p.j() && p.i() - p.j() < 1024; })
      .normalize(softmax())
      .build();
}

Result<HostTensors> attend(const HostTensors& inputs) {  // q, k, v and slope
  const Result<Graph> graph = alibi_window();
  if (!graph) return graph.errors();
  const Result<Machine> machine = open_machine("spirv");  // or "cuda", "cuda:sm_90a", "hip"
  if (!machine) return machine.errors();
  return run(*graph, *machine, inputs);  // o and lse
}
// ---- end

std::string readme_text() {
  std::ostringstream text;
  text << std::ifstream(ATTNFUSE_SOURCE_DIR "/README.md").rdbuf();
  return text.str();
}

std::vector<double> values(const HostTensor& tensor) {
  std::vector<double> result;
  conformance::for_each_index(tensor.layout.shape, [&](auto index) { result.push_back(tensor.get(index)); });
  return result;
}

}  // namespace

TEST_CASE("the README says the same program in text and in C++") {
  const std::string readme = readme_text();
  const std::size_t begin = readme.find("attention alibi_window {"), end = readme.find("\n}\n", begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const auto parsed = parse_one(readme.substr(begin, end + 2 - begin));
  REQUIRE_MESSAGE(parsed, render(parsed.errors()));
  const auto built = alibi_window();
  REQUIRE_MESSAGE(built, render(built.errors()));
  CHECK(print(*built) == print(*parsed));
}

TEST_CASE("the README's C++ example computes what the reference does") {
  const Graph graph = alibi_window().value();
  conformance::Case c;
  c.sq = 21;
  c.skv = 40;
  const conformance::Inputs inputs = conformance::make_inputs(graph, c);
  if (const auto machine = open_machine("spirv"); !machine) {
    MESSAGE("skipped: ", render(machine.errors()));
    return;
  }
  const auto outputs = attend(inputs.tensors);
  if (!outputs && outputs.errors().front().code == "toolkit.missing") {
    MESSAGE("skipped: ", render(outputs.errors()));
    return;
  }
  REQUIRE_MESSAGE(outputs, render(outputs.errors()));
  const auto expected = conformance::expect(graph, inputs).value();
  const auto judgement =
      conformance::judge(graph, expected, {values(outputs->at("o")), values(outputs->at("lse"))});
  CHECK_MESSAGE(judgement.equal, judgement.message);
}

}  // namespace attnfuse
