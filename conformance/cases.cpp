#include "conformance/cases.h"

#include <set>

#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr Family kFamilies[] = {
    {"examples", "the example programs, at reduced sizes", "", example_cases},
    {"gym", "masks and scores of PyTorch's attention-gym, in .attn text", "", gym_cases},
    {"blocks", "every block alone, in every dtype", "", block_cases},
    {"pairs", "any two blocks compose", "", pair_cases},
    {"rope", "both pairings, partial, scaled, any position", "ROPE", rope_cases},
    {"scaling", "every scaling, pairing and position axis of rope, and xpos", "ROPE", scaling_cases},
    {"norm", "norms before and after rope, clipped and growing rows", "", norm_cases},
    {"bias", "relative, dense and decaying scores", "", bias_cases},
    {"normalizers", "weights that are no softmax", "", normalizer_cases},
    {"after", "weights after the softmax, outputs after the product", "", after_cases},
    {"differential", "a second score head on the same values, its part taken away", "", differential_cases},
    {"rotation", "a transform ahead of attention equals one inside it", "ROPE DETERM", rotation_cases},
    {"softcap", "c * tanh(x / c), before the mask", "SOFTCAP LARGE-LOGIT", softcap_cases},
    {"sink", "a sink enters the denominator once, and is the LSE of an empty row", "SINK", sink_cases},
    {"captured", "captured tensors of every dtype, axis and stride", "STRIDE-FUZZ", captured_cases},
    {"shapes", "any lengths, zero included", "ODD-LEN EMPTY-LSE", shape_cases},
    {"groups", "kv head = h / (heads / kv_heads) for any divisor", "GQA-MAP", group_cases},
    {"head_dims", "every multiple of 8 up to 576", "HEADDIM", head_dim_cases},
    {"value_dims", "v_head_dim differs from head_dim, either way; values too wide for one workgroup",
     "DQK!=DV", value_dim_cases},
    {"layouts", "any strides and offsets with a contiguous last axis", "STRIDE-FUZZ", layout_cases},
    {"big_stride", "offsets are 64-bit", "BIG-STRIDE CAPTURED-BIG", big_stride_cases},
    {"align", "causal and window align as they say, for every sign of skv - sq", "ALIGN EMPTY-LSE",
     align_cases},
    {"window", "window(W) keeps 0 <= i - j < W", "WINDOW", window_cases},
    {"empty_row", "a row without allowed key gives o = 0, lse = -inf", "EMPTY-ROW EMPTY-LSE",
     empty_row_cases},
    {"first_tile", "a row whose first tiles are masked is an ordinary row", "FIRST-TILE-MASKED",
     first_tile_cases},
    {"masks", "any predicate and its combinations", "", mask_cases},
    {"data_bounds", "masks whose empty and whole tiles only the data tell", "FIRST-TILE-MASKED",
     data_bound_cases},
    {"named_masks", "every mask of the catalog, alone and joined", "", named_mask_cases},
    {"language", "every operation of expressions, negative operands included", "", language_cases},
    {"poison", "slots that no query may see never influence anything, whatever bits they hold", "POISON-KV",
     poison_cases},
    {"decode", "decoding the last row equals the prefill", "DECODE==PREFILL", decode_cases},
    {"shares", "shares of the keys, merged, give what all keys give", "MERGE-MONOID", share_cases},
    {"ragged", "packed sequences of any lengths, each as if it were alone", "VARLEN-ZERO ODD-LEN",
     ragged_cases},
    {"paged", "keys and values in pages, in any order, whatever else the pages hold",
     "PAGE-PERMUTE POISON-KV", paged_cases},
    {"shift", "a constant added to all scores of a row changes nothing", "SHIFT", shift_cases},
    {"large_logit", "huge finite scores are ordinary", "LARGE-LOGIT", large_logit_cases},
    {"real", "data as trained models produce it", "REAL-DIST", real_cases},
    {"range", "accumulators are f32", "ACC-RANGE", range_cases},
    {"metamorphic", "scores moved, keys in reverse, keys in two parts, batch entries alone: the same outputs",
     "SHIFT MERGE-MONOID", metamorphic_cases},
    {"repeat", "the same inputs give the same bits", "DETERM RACE", repeat_cases},
};

constexpr FailureKind kFailureKinds[] = {
    {"EMPTY-ROW", "a row without keys is NaN, or an average of masked values"},
    {"EMPTY-LSE", "its LSE is finite, or plus infinity"},
    {"FIRST-TILE-MASKED", "a row whose first tiles are masked is NaN"},
    {"POISON-OUT", "elements of the output are not written", "outputs are NaN before every launch"},
    {"POISON-KV", "what masked slots hold reaches the output"},
    {"POISON-WORKSPACE", "a kernel counts on a cleared workspace", "workspaces are NaN before every launch"},
    {"SHIFT", "scores far below or above zero lose rows"},
    {"ODD-LEN", "lengths that no tile divides"},
    {"VARLEN-ZERO", "sequences without queries or keys"},
    {"PAGE-PERMUTE", "pages are read in another order than the table's"},
    {"ALIGN", "causal masks and windows align with the wrong end"},
    {"WINDOW", "a window is off by one"},
    {"DECODE==PREFILL", "a row alone differs from the same row among others"},
    {"GQA-MAP", "query heads read the wrong keys, masks or biases"},
    {"HEADDIM", "head dims that are padded, or smaller than a tile"},
    {"DQK!=DV", "values as wide as keys are taken for granted"},
    {"STRIDE-FUZZ", "one tensor is read with the strides of another"},
    {"BIG-STRIDE", "offsets overflow 32 bits"},
    {"CAPTURED-BIG", "so do those of captured tensors"},
    {"MERGE-MONOID", "outputs of parts of the keys do not add up"},
    {"SINK", "a sink counts twice, never, or at the wrong scale"},
    {"SOFTCAP", "scores are capped after the mask, or not smoothly"},
    {"DETERM", "the same launch gives other bits"},
    {"RACE", "threads do not wait for each other", "the CPU executors run threads in several orders"},
    {"LARGE-LOGIT", "large finite scores become infinite or NaN"},
    {"ACC-RANGE", "sums are kept in 16 bits"},
    {"REAL-DIST", "what random normal data hide"},
    {"ROPE", "pairs, partial rotations, scalings and positions"},
    {"RESOURCE", "no tile fits, or a launch needs more than there is",
     "`conform --mode support`: every dtype and head dim on every target"},
    {"SUPPORT-TOTAL", "a program is accepted, then crashes",
     "a case is refused with a diagnostic when it is built, or passes"},
};

bool looks_for(const Family& family, std::string_view kind) {
  const std::string padded = " " + std::string(family.failures) + " ";
  return padded.find(" " + std::string(kind) + " ") != std::string::npos;
}

}  // namespace

std::span<const Family> families() { return kFamilies; }
std::span<const FailureKind> failure_kinds() { return kFailureKinds; }

std::string families_markdown() {
  std::string text = "| family | promise | quick cases |\n|---|---|---|\n";
  for (const Family& family : kFamilies)
    text +=
        fmt::format("| `{}` | {} | {} |\n", family.name, family.promise, family.cases(CaseSet::quick).size());
  text += "\n| kind of failure | what goes wrong | looked for by |\n|---|---|---|\n";
  for (const FailureKind& kind : kFailureKinds) {
    std::string places;
    for (const Family& family : kFamilies)
      if (looks_for(family, kind.name))
        places += fmt::format("{}`{}`", places.empty() ? "" : ", ", family.name);
    if (!kind.everywhere.empty()) places += (places.empty() ? "" : "; ") + std::string(kind.everywhere);
    text += fmt::format("| {} | {} | {} |\n", kind.name, kind.about, places);
  }
  return text;
}

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
