#include "conformance/fuzz.h"

#include "conformance/random_program.h"
#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::conformance {
namespace {

template <class Value, std::size_t n>
Value pick(Random& random, const Value (&values)[n]) {
  return values[random.below(std::int64_t(n))];
}

std::int64_t random_length(Random& random) {
  // Around tile edges more often than elsewhere.
  constexpr std::int64_t kEdges[] = {1, 8, 16, 32, 64, 128};
  if (random.below(2) == 0) return random.below(150);
  return std::max<std::int64_t>(0, pick(random, kEdges) + random.below(3) - 1);
}

// Some combinations are mistakes: pairs that do not fit the head, or pairs of pairs.
bool is_valid(const std::string& program) {
  const auto graph = parse_one(program);
  return graph && run_graph_passes(*graph);
}

RandomProgram random_valid_program(Random& random) {
  constexpr int kTries = 50;
  for (int n = 0; n < kTries; ++n)
    if (RandomProgram program = random_program(random); is_valid(program.text)) return program;
  ATTNFUSE_CHECK(false, "no random program is valid");
}

}  // namespace

Case random_case(std::uint64_t seed) {
  Random random(seed);
  const RandomProgram made = random_valid_program(random);
  Case c;
  c.family = "random";
  c.batch = 1 + random.below(2);
  c.sq = random_length(random);
  c.skv = random_length(random);
  c.seed = seed;
  c.layout =
      layouts()[std::size_t(random.below(std::int64_t(layouts().size()) - 1))].kind;  // all but the last: far
  constexpr Data kAny[] = {Data::normal, Data::normal, Data::poison_masked, Data::poison_seen};
  constexpr Data kSoftmax[] = {Data::large_logit, Data::real, Data::uniform};
  const bool is_special = made.is_softmax && random.below(3) == 0;
  const Data data = is_special ? pick(random, kSoftmax) : pick(random, kAny);
  c.data = c.layout == Layout::broadcast || (data == Data::poison_seen && !made.shows_infinity) ? Data::normal
                                                                                                : data;
  if (c.data == Data::poison_masked) c.check = Check::same_bits;
  c.rotation = rotations()[std::size_t(random.below(std::int64_t(rotations().size())))].rotation;
  c.program = made.text;
  return c;
}

}  // namespace attnfuse::conformance
