// Schedules with roles, on every machine of this kind that is at hand: at least the CPU executor.
#include <doctest/doctest.h>

#include "conformance/run.h"

namespace attnfuse::conformance {
namespace {

// Each takes another way through the schedule.
constexpr const char* kCases[] = {
    // Cut and whole tiles, more query tiles than workgroups, query heads that share keys.
    "groups b=2 sq=300 skv=300 layout=bhsd data=normal check=value seed=1 :: attention causal { heads 4 "
    "kv_heads 2 "
    "head_dim 64 dtype bf16 score scale(0.125) mask causal normalize softmax }",
    // No mask: no tile in doubt; a head dim of two panels that fills neither; rows past the end.
    "shapes b=1 sq=130 skv=257 layout=bshd data=normal check=value seed=2 :: attention open { heads 2 "
    "head_dim 72 "
    "dtype f16 score scale(0.1) normalize softmax }",
    // Tiles left out on both sides, a sink, values that no row may see and that are not finite: careful runs.
    "poison b=1 sq=200 skv=260 layout=bhsd data=poison_masked check=same_bits seed=3 :: attention windowed { "
    "heads 2 "
    "head_dim 128 dtype bf16 param sink : f32[heads] mask window(100) normalize softmax(sink = sink[h]) }",
    // Holes between tiles, a bias that the product starts from, and the transforms inside the kernel.
    "masks b=1 sq=70 skv=400 layout=bhsd data=normal check=value rotation=fuse seed=4 :: attention holed { "
    "heads 2 "
    "head_dim 32 dtype bf16 param slope : f32[heads] query rope(theta = 100) key rope(theta = 100) "
    "score x + slope[h] * (j - i) mask j < 100 || j >= 300 }",
    // Packed sequences beside others that hold NaN, some empty: whole tiles and rests of sequences are stored
    // apart, and without a mask only lengths cut values.
    "ragged lengths=200/200,0/70,130/9,5/0,64/300 layout=bshd data=poison_others check=value seed=5 :: "
    "attention "
    "packed { heads 4 kv_heads 2 head_dim 64 dtype bf16 storage ragged mask causal output gated(0.5) }",
    "ragged lengths=140/33,70/90,1/200 layout=bhsd data=poison_others check=value seed=4 :: attention packed "
    "{ "
    "heads 2 head_dim 128 dtype f16 storage ragged }",
    // Several pages to a tile, and parts of one.
    "paged lengths=100/140,0/0,1/300,30/17 layout=bshd data=normal check=page_order seed=7 :: attention "
    "in_pages "
    "{ heads 2 kv_heads 1 head_dim 128 dtype f16 storage ragged, paged(page_size = 16) mask causal }",
    "paged b=3 sq=9 skv=700 layout=bhsd data=normal check=page_order seed=8 :: attention in_pages { heads 2 "
    "kv_heads 1 head_dim 64 dtype bf16 storage paged(page_size = 256) }",
};

}  // namespace

TEST_CASE("schedules with roles give what the reference gives") {
  CompileOptions options;
  options.schedule_kind = ScheduleKind::pipelined;
  int machines = 0;
  for (const Target& target : all_targets()) {
    if (!target.pipeline) continue;
    auto opened = Executor::open(target.name, options);
    if (!opened) {
      MESSAGE("SKIPPED: " << render(opened.errors()));
      continue;
    }
    Executor executor = std::move(opened).value();
    ++machines;
    for (const char* line : kCases) {
      const auto parsed = parse_line(line);
      REQUIRE_MESSAGE(parsed.ok(), render(parsed.errors()));
      const Outcome outcome = run_case(executor, *parsed);
      INFO(target.name, ": ", line);
      CHECK_MESSAGE(outcome.verdict == Verdict::passed, outcome.message);
    }
  }
  CHECK(machines > 0);
}

}  // namespace attnfuse::conformance
