#include <set>

#include <doctest/doctest.h>

#include "conformance/fuzz.h"
#include "conformance/random_program.h"
#include "frontend/catalog.h"
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
  CHECK(programs.size() > 290);
}

TEST_CASE("most random programs are valid, and every block of the catalog comes up in them") {
  constexpr int kPrograms = 2000;
  int valid = 0;
  std::string all;
  Random random(7);
  for (int n = 0; n < kPrograms; ++n) {
    const RandomProgram program = random_program(random);
    if (!parse_one(program.text)) continue;
    ++valid;
    all += program.text;
  }
  CHECK(valid > kPrograms * 3 / 4);
  for (const Block* block : catalog()) {
    CAPTURE(block->name);
    const auto comes_after = [&](char c) {
      return all.find(c + std::string(block->name)) != std::string::npos;
    };
    CHECK((comes_after(' ') || comes_after('(')));
  }
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
        "attention random { heads 1 kv_heads 1 head_dim 16 dtype f32 score softcap(5) }");
}

TEST_CASE("shrinking takes masks apart and drops the tensors that nothing mentions") {
  Case c;
  c.family = "random";
  c.program =
      "attention random { heads 4 kv_heads 2 head_dim 64 v_head_dim 32 dtype bf16 param a : bool[skv] param "
      "b : "
      "i32[batch] param z : f32[heads] key norm(eps = 0.01) mask (!(a[j]) || (window(9) && causal)) && j < "
      "b[b] normalize softmax(sink = z[h]) output norm }";
  const Case small = shrink(c, [](const Case& candidate) {
    return candidate.program.find("window") != std::string::npos &&
           candidate.program.find("bf16") != std::string::npos;
  });
  CHECK(small.program == "attention random { heads 1 kv_heads 1 head_dim 16 dtype bf16 mask window(9) }");
}

TEST_CASE("shrinking ends after as many tries as it is given") {
  int tries = 0;
  const Case c = random_case(3);
  CHECK(shrink(c, [&](const Case&) { return ++tries, true; }, 5) != c);
  CHECK(tries == 5);
}

}  // namespace attnfuse::conformance
