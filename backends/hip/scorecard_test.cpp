#include "backends/hip/scorecard.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "backends/hip/backend.h"
#include "backends/hip/targets.h"
#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::hip {
namespace {

// {0} heads' dimension, {1} dtype. `plain` copies keys as they are, `llama` rotates them on the way.
constexpr std::string_view kPlain =
    "attention card {{ heads 8 kv_heads 2 head_dim {0} dtype {1} score scale(1 / sqrt(head_dim)) mask causal "
    "normalize softmax }}";
constexpr std::string_view kLlama =
    "attention card {{ heads 8 kv_heads 2 head_dim {0} dtype {1} query rope(theta = 500000) key rope(theta = "
    "500000) "
    "score scale(1 / sqrt(head_dim)) mask causal normalize softmax }}";

Result<Scorecard> card_of(const Target& target, std::string_view program, int head_dim, const char* dtype) {
  const Result<Graph> graph = parse_one(fmt::format(fmt::runtime(program), head_dim, dtype));
  if (!graph) return graph.errors();
  const Result<TileProgram> tiles = compile_to_tiles(*graph, target);
  if (!tiles) return tiles.errors();
  const Result<Source> source = backend().emit(*tiles);
  if (!source) return source.errors();
  const Result<Binary> code = backend().assemble(*source, target);
  if (!code) return code.errors();
  return score(*code, target, tiles->threads());
}

// Vector work per matrix work of the loop, as it is: a change for the worse fails, one for the better lowers
// the row.
struct Gate {
  const char* arch;
  int head_dim;
  const char* dtype;
  const char* instruction;
  double vector_ratio, shared_ratio;
};
constexpr Gate kGates[] = {
    {"gfx90a", 64, "f16", "v_mfma_f32_32x32x8f16", 0.6, 0.3},
    {"gfx90a", 128, "bf16", "v_mfma_f32_32x32x8bf16_1k", 0.43, 0.3},
    {"gfx942", 64, "f16", "v_mfma_f32_32x32x8_f16", 1.17, 0.6},
    {"gfx942", 64, "bf16", "v_mfma_f32_32x32x8_bf16", 1.5, 0.6},
    {"gfx942", 128, "f16", "v_mfma_f32_32x32x8_f16", 0.68, 0.6},
    {"gfx942", 128, "bf16", "v_mfma_f32_32x32x8_bf16", 0.84, 0.6},
    {"gfx1100", 64, "f16", "v_wmma_f32_16x16x16_f16", 0.48, 0.6},
    {"gfx1100", 128, "bf16", "v_wmma_f32_16x16x16_bf16", 0.36, 0.6},
    {"gfx1201", 64, "f16", "v_wmma_f32_16x16x16_f16", 0.8, 0.6},
    {"gfx1201", 128, "bf16", "v_wmma_f32_16x16x16_bf16", 0.6, 0.6},
};

const Target& target_of(const std::string& arch) {
  static const std::vector<Target> all = targets();
  for (const Target& target : all)
    if (target.arch == arch) return target;
  FAIL("no target " << arch);
  return all.front();
}

// False without the tools.
bool present(const Result<Scorecard>& card) {
  if (card.ok() || card.errors()[0].code != "toolkit.missing") return true;
  MESSAGE("SKIPPED: " << render(card.errors()));
  return false;
}

}  // namespace

TEST_CASE("kernels keep everything in registers and multiply on the matrix unit") {
  for (const Gate& gate : kGates) {
    INFO(std::string(gate.arch), " head_dim ", gate.head_dim, " ", std::string(gate.dtype));
    const Result<Scorecard> card = card_of(target_of(gate.arch), kPlain, gate.head_dim, gate.dtype);
    if (!present(card)) return;
    REQUIRE_MESSAGE(card.ok(), render(card.errors()));
    MESSAGE(fmt::format("head_dim {} {} {}", gate.head_dim, gate.dtype, to_string(*card)));
    CHECK(card->spills == 0);
    CHECK(card->scratch_bytes == 0);
    REQUIRE(card->has_matrix_loop);
    CHECK(card->matrix_instruction == std::string(gate.instruction));
    CHECK(card->accumulator_registers == 0);
    CHECK(card->loop.accumulator_moves == 0);
    CHECK(card->loop.narrow_shared_reads == 0);
    CHECK(card->loop.barriers <= 4);
    CHECK(card->loop.bytes <= 32 * 1024);
    CHECK(card->waves_per_simd >= 2);
    CHECK(card->vector_ratio() <= gate.vector_ratio);
    CHECK(card->shared_ratio() <= gate.shared_ratio);
  }
}

TEST_CASE("kernels that rotate keys on the way do not spill") {
  for (const Target& target : targets())
    for (const int head_dim : {64, 128}) {
      INFO(target.name, " head_dim ", head_dim);
      const Result<Scorecard> card = card_of(target, kLlama, head_dim, "f16");
      if (!present(card)) return;
      REQUIRE_MESSAGE(card.ok(), render(card.errors()));
      MESSAGE(fmt::format("rope, head_dim {} {}", head_dim, to_string(*card)));
      CHECK(card->spills == 0);
      CHECK(card->scratch_bytes == 0);
      CHECK(card->has_matrix_loop == !target.units.front().is_fma());
    }
}

TEST_CASE("two score heads keep their outputs in registers") {
  constexpr std::string_view kDifferential =
      "attention card {{ heads 8 kv_heads 2 head_dim 64 v_head_dim {0} dtype {1} query rope key rope "
      "score scale(1 / sqrt(head_dim)) mask causal output differential(0.5) output norm }}";
  // Addresses, outside of the products. Without matrix units tiles are as large as fits; twice 128 columns
  // are half of RDNA 3's registers, and its operands lie in both halves of a wave.
  constexpr int kAddressBytes = 128;
  for (const Target& target : targets())
    for (const int values : {64, 128}) {
      INFO(target.name, " values of ", values);
      const Result<Scorecard> card = card_of(target, kDifferential, values, "bf16");
      if (!present(card)) return;
      REQUIRE_MESSAGE(card.ok(), render(card.errors()));
      MESSAGE(fmt::format("two score heads, values of {} {}", values, to_string(*card)));
      const bool has_matrix_unit = !target.units.front().is_fma();
      const bool is_tight = !has_matrix_unit || (target.arch == "gfx1100" && values == 128);
      CHECK(card->scratch_bytes <= (is_tight ? kAddressBytes : 0));
      CHECK(card->has_matrix_loop == has_matrix_unit);
    }
}

}  // namespace attnfuse::hip
