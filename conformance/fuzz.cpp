#include "conformance/fuzz.h"

#include <set>
#include <string>
#include <vector>

#include "conformance/family.h"
#include "conformance/random.h"

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

Dims random_dims(Random& random) {
  constexpr int kHeadDims[] = {8, 16, 24, 32, 40, 64, 72, 96, 128};
  constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
  Dims dims;
  dims.kv_heads = int(1 + random.below(3));
  dims.heads = dims.kv_heads * int(1 + random.below(5));
  dims.head_dim = pick(random, kHeadDims);
  if (random.below(3) == 0) dims.v_head_dim = pick(random, kHeadDims);
  dims.dtype = pick(random, kDtypes);
  return dims;
}

// The block texts that occur in a program, in table order.
std::vector<std::string> blocks_in(const std::string& program_text) {
  std::vector<std::string> found;
  for (const BlockText& block : block_texts()) {
    const std::string text = one_line(block.text);
    if (program_text.find(" " + text + " ") != std::string::npos) found.push_back(text);
  }
  return found;
}

std::string without(std::string program_text, const std::string& block) {
  return program_text.erase(program_text.find(" " + block + " "), block.size() + 1);
}

std::vector<Case> simpler(const Case& c) {
  std::vector<Case> candidates;
  const auto add = [&](auto change) {
    Case simple = c;
    change(simple);
    if (!(simple == c)) candidates.push_back(std::move(simple));
  };
  for (const std::string& block : blocks_in(c.program))
    add([&](Case& simple) { simple.program = without(simple.program, block); });
  add([](Case& simple) { simple.batch = std::min<std::int64_t>(simple.batch, 1); });
  add([](Case& simple) { simple.sq /= 2; });
  add([](Case& simple) { simple.skv /= 2; });
  add([](Case& simple) { simple.sq = std::max<std::int64_t>(simple.sq - 1, 0); });
  add([](Case& simple) { simple.skv = std::max<std::int64_t>(simple.skv - 1, 0); });
  add([](Case& simple) { simple.layout = Layout::bhsd; });
  add([](Case& simple) { simple.data = Data::normal; });
  add([](Case& simple) { simple.rotation = Rotation::automatic; });
  return candidates;
}

}  // namespace

Case random_case(std::uint64_t seed) {
  Random random(seed);
  const Dims dims = random_dims(random);
  std::string body;
  std::set<std::string> taken;
  for (const BlockText& block : block_texts())
    if (random.below(5) == 0 && dims.head_dim >= 16 && taken.insert(block.slot).second)
      body += std::string(block.text) + " ";
  Case c;
  c.family = "random";
  c.batch = 1 + random.below(2);
  c.sq = random_length(random);
  c.skv = random_length(random);
  c.seed = seed;
  c.layout =
      layouts()[std::size_t(random.below(std::int64_t(layouts().size()) - 1))].kind;  // all but the last: far
  constexpr Data kData[] = {Data::normal, Data::normal, Data::large_logit, Data::real, Data::poison_masked};
  c.data = c.layout == Layout::broadcast ? Data::normal : pick(random, kData);
  c.rotation = rotations()[std::size_t(random.below(std::int64_t(rotations().size())))].rotation;
  c.program = program("random", dims, body);
  return c;
}

Case shrink(Case failing, const std::function<bool(const Case&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const Case& candidate : simpler(failing))
      if (fails(candidate)) {
        failing = candidate;
        smaller = true;
        break;
      }
  }
  return failing;
}

}  // namespace attnfuse::conformance
