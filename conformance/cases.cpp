#include "conformance/cases.h"

#include <set>

#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr Family kFamilies[] = {
    {"examples", "the example programs, at reduced sizes", example_cases},
    {"blocks", "every block alone, in every dtype", block_cases},
    {"pairs", "any two blocks compose", pair_cases},
    {"rope", "both pairings, partial, scaled, any position", rope_cases},
    {"scaling", "every scaling, pairing and position axis of rope, and xpos", scaling_cases},
    {"norm", "norms before and after rope, clipped and growing rows", norm_cases},
    {"bias", "relative, dense and decaying scores", bias_cases},
    {"normalizers", "weights that are no softmax", normalizer_cases},
    {"after", "weights after the softmax, outputs after the product", after_cases},
    {"rotation", "a transform ahead of attention equals one inside it", rotation_cases},
    {"softcap", "c * tanh(x / c), before the mask", softcap_cases},
    {"sink", "a sink enters the denominator once, and is the LSE of an empty row", sink_cases},
    {"captured", "captured tensors of every dtype, axis and stride", captured_cases},
    {"shapes", "any lengths, zero included", shape_cases},
    {"groups", "kv head = h / (heads / kv_heads) for any divisor", group_cases},
    {"head_dims", "every multiple of 8 up to 256", head_dim_cases},
    {"value_dims", "v_head_dim differs from head_dim, either way", value_dim_cases},
    {"layouts", "any strides and offsets with a contiguous last axis", layout_cases},
    {"align", "causal and window align as they say, for every sign of skv - sq", align_cases},
    {"window", "window(W) keeps 0 <= i - j < W", window_cases},
    {"empty_row", "a row without allowed key gives o = 0, lse = -inf", empty_row_cases},
    {"first_tile", "a row whose first tiles are masked is an ordinary row", first_tile_cases},
    {"masks", "any predicate and its combinations", mask_cases},
    {"data_bounds", "masks whose empty and whole tiles only the data tell", data_bound_cases},
    {"named_masks", "every mask of the catalog, alone and joined", named_mask_cases},
    {"language", "every operation of expressions, negative operands included", language_cases},
    {"poison", "slots that no query may see never influence anything, whatever bits they hold", poison_cases},
    {"decode", "decoding the last row equals the prefill", decode_cases},
    {"shares", "shares of the keys, merged, give what all keys give", share_cases},
    {"shift", "a constant added to all scores of a row changes nothing", shift_cases},
    {"large_logit", "huge finite scores are ordinary", large_logit_cases},
    {"real", "data as trained models produce it", real_cases},
    {"range", "accumulators are f32", range_cases},
    {"repeat", "the same inputs give the same bits", repeat_cases},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

std::vector<Case> all_cases(CaseSet set) {
  std::vector<Case> cases;
  std::set<std::string> lines;
  for (const Family& family : kFamilies)
    for (Case& c : family.cases(set)) {
      c.family = family.name;
      if (lines.insert(to_line(c)).second) cases.push_back(std::move(c));
    }
  return cases;
}

std::string program(const std::string& name, const Dims& dims, const std::string& body) {
  const std::string value = dims.v_head_dim == 0 ? "" : fmt::format("v_head_dim {} ", dims.v_head_dim);
  return one_line(fmt::format("attention {} {{ heads {} kv_heads {} head_dim {} {}dtype {} {} }}", name,
                              dims.heads, dims.kv_heads, dims.head_dim, value, attnfuse::name(dims.dtype),
                              body));
}

Case make_case(std::string program_text, const Shape& shape) {
  Case c;
  c.batch = shape.batch;
  c.sq = shape.sq;
  c.skv = shape.skv;
  c.program = std::move(program_text);
  return c;
}

}  // namespace attnfuse::conformance
