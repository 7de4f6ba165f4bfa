#include <set>

#include <doctest/doctest.h>

#include "conformance/fuzz.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {

TEST_CASE("random programs parse and a seed names its case") {
  std::set<std::string> programs;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Case c = random_case(seed);
    CHECK(c == random_case(seed));
    programs.insert(c.program);
    const auto graph = parse_one(c.program);
    CHECK_MESSAGE(graph.ok(), "seed " << seed << ": " << (graph ? "" : render(graph.errors(), c.program)));
  }
  CHECK(programs.size() > 250);
}

TEST_CASE("shrinking keeps the failure and loses the rest") {
  Case c;
  c.family = "random";
  c.batch = 2;
  c.sq = 100;
  c.skv = 77;
  c.layout = Layout::odd;
  c.program = "attention random { heads 2 kv_heads 1 head_dim 32 dtype f16 score softcap(5) mask causal }";
  const Case small = shrink(c, [](const Case& candidate) {
    return candidate.sq >= 9 && candidate.program.find("softcap") != std::string::npos;
  });
  CHECK(to_line(small) ==
        "random b=1 sq=9 skv=0 layout=bhsd data=normal check=value seed=1 :: "
        "attention random { heads 2 kv_heads 1 head_dim 32 dtype f16 score softcap(5) }");
}

}  // namespace attnfuse::conformance
