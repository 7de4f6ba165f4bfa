// dropout(p, seed): weights are set to zero with probability p and the others divided by 1 - p (Srivastava et
// al., 2014). The sum that a softmax divides by, and the log-sum-exp, are those of all weights. Whether a
// weight stays depends on (seed, b * heads + h, i, j) alone: Philox4x32-10 with key (seed, 0) at counter
// (j // 4, i, b * heads + h, 0), the upper 24 bits of its word j % 4 as a fraction, at least p. A backward
// pass, another machine or another schedule drops the same weights.
#include <fmt/format.h>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::weights};
constexpr Parameter kParameters[] = {
    {"p", ParameterKind::index, Presence::required,
     "the share that is dropped, from 0 to below 1: a number or a tensor's"},
    {"seed", ParameterKind::index, Presence::required,
     "an i32 that changes from call to call, such as a tensor of rank 0"},
};

Value expand(const BlockInput& input) {
  const Value given = to_f32(input.arguments.value("p")), seed = input.arguments.value("seed");
  if (given.is_constant() && !(given.constant() >= 0 && given.constant() < 1)) {
    input.mistake(
        "block.argument-range",
        fmt::format("p of dropout is {}; it must lie between 0 and 1, and not be 1", given.constant()));
    return input.x;
  }
  if (seed.type() != ValueType::i32) {
    input.mistake("block.argument-type",
                  fmt::format("seed of dropout is {}; it must be i32", name(seed.type())),
                  "declare it: param seed : i32");
    return input.x;
  }
  // Kernels compare in f32.
  const Value p = given.is_constant() ? Value(double(float(given.constant()))) : given;
  const Value b = input.index(Axis::b), h = input.index(Axis::h);
  const Value row = b * input.size(Size::heads) + h;
  const Value i = input.index(Axis::i), j = input.index(Axis::j);
  const Value random = apply(ScalarOp::philox, {seed, row, i, j});
  return input.x * select(random >= p, 1.0 / (1.0 - p), 0.0);
}

}  // namespace

constinit const Block kDropout{
    .name = "dropout",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Drops weights at random, the same ones on every machine and schedule.",
    .math = "x * (philox(seed, b * heads + h, i, j) >= p ? 1 / (1 - p) : 0)",
    .latex = R"(x \cdot \frac{\mathbb{1}[u_{bhij} \ge p]}{1 - p})",
    .source =
        "Srivastava et al., Dropout (2014); Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 "
        "(2011)",
    .expand = expand,
};

}  // namespace attnfuse
