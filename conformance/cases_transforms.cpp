// What happens to queries, keys and values before the product, and to scores after it: every block of the
// catalog with its choices, on odd lengths. The quick set takes dtypes, head dims and rotations in turns.
#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::f32, DType::bf16};
constexpr Shape kShapes[] = {{2, 37, 70}, {1, 33, 33}, {2, 1, 90}, {1, 66, 40}};

void add(std::vector<Case>& cases, CaseSet set, const char* name, const char* body, int head_dim) {
  const std::size_t turn = cases.size();
  Dims dims{.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = kDtypes[turn % 3]};
  Case c = make_case(program(name, dims, body), kShapes[turn % 4]);
  c.rotation = rotations()[turn % 5].rotation;
  cases.push_back(c);
  if (set == CaseSet::quick) return;
  for (DType dtype : kDtypes)
    for (const RotationInfo& info : rotations()) {
      dims.dtype = dtype;
      c = make_case(program(name, dims, body), {2, 130, 150});
      c.rotation = info.rotation;
      cases.push_back(c);
    }
}

}  // namespace

std::vector<Case> scaling_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           "query rope(scaling = linear(4)) key rope(scaling = linear(4)) mask causal",
           "query rope(scaling = ntk(3)) key rope(scaling = ntk(3))",
           "query rope(scaling = dynamic_ntk(2, 30)) key rope(scaling = dynamic_ntk(2, 30)) mask causal",
           "query rope(scaling = ntk_by_parts(8, 64)) key rope(scaling = ntk_by_parts(8, 64))",
           "query rope(theta = 150000, scaling = yarn(32, 64, truncate = no)) key rope(theta = 150000, "
           "scaling = "
           "yarn(32, 64, truncate = no)) mask causal",
           "param near : f32[16] param far : f16[16] query rope(scaling = longrope(near, far, 50, factor = "
           "4)) key "
           "rope(scaling = longrope(near, far, 50, factor = 4))",
           "query rope(dims = 16, distance = 16, denominator = 32) key rope(dims = 16, distance = 16, "
           "denominator "
           "= 32)",
           "query rope(pairs = interleaved, start = 16) key rope(pairs = interleaved, start = 16) mask "
           "causal",
           "query rope(dims = 12, distance = 9) key rope(dims = 12, distance = 9)",
           "param at : i32[3, batch, skv] query rope(axes = chunked(4, 6, 6), position = at[0, b, i], "
           "position_2 "
           "= at[1, b, i], position_3 = at[2, b, i]) key rope(axes = chunked(4, 6, 6), position = at[0, b, "
           "j], "
           "position_2 = at[1, b, j], position_3 = at[2, b, j])",
           "query rope(axes = interleaved(6, 5, 5), position = i, position_2 = i // 3, position_3 = i % 3) "
           "key "
           "rope(axes = interleaved(6, 5, 5), position = j, position_2 = j // 3, position_3 = j % 3)",
           "query rope(theta = 100, pairs = interleaved, axes = axial(8, 8), position = i // 9, position_2 = "
           "i % 9) "
           "key rope(theta = 100, pairs = interleaved, axes = axial(8, 8), position = j // 9, position_2 = j "
           "% 9)",
           "query rope query xpos key rope key xpos mask causal",
           "query xpos(scale_base = 20, pairs = interleaved, dims = 16, offset = -30) key xpos(scale_base = "
           "20, "
           "pairs = interleaved, dims = 16, offset = -30)",
       })
    add(cases, set, "turned", body, 32);
  return cases;
}

std::vector<Case> norm_cases(CaseSet set) {
  std::vector<Case> cases;
  const char* kBodies[] = {
      "query norm key norm mask causal",
      "param w : f16[head_dim] query norm(weight = w, unit_offset = yes) query rope key norm(weight = w) key "
      "rope mask "
      "causal",
      "param w : f32[heads, head_dim] param c : bf16[head_dim] query norm(layer, weight = w, bias = c) key "
      "norm(layer, eps = 0.01) key rope(pairs = interleaved)",
      "query rope query norm(l2) key rope key norm(l2) score scale(10)",
      "query norm query rope(dims = 16) query norm(layer) key norm",
      "param r : f32[batch, sq] query norm(inverse = 0.5 + abs(r[b, i])) value norm(layer)",
      "query clip(0.75) key clip(1.5) value clip(0.5) mask causal",
      "query scale_by_position(20) key norm mask causal",
      "query scale_by_position(16, kind = log_n) key x mask causal",
      "value norm mask window(9) && j < 60",
  };
  for (const char* body : kBodies) add(cases, set, "normed", body, 32);
  add(cases, set, "normed", kBodies[1], 72);
  add(cases, set, "normed", kBodies[2], 40);
  // Rows of zeros, and values that only some rows may see.
  Case c = make_case(program("normed", {.dtype = DType::f32}, kBodies[0]), {1, 20, 33});
  c.data = Data::uniform;
  cases.push_back(c);
  c = make_case(program("normed", {}, "value norm mask i >= j && j != 5"), {1, 33, 67});
  c.data = Data::poison_seen;
  cases.push_back(c);
  c.data = Data::poison_masked;
  c.check = Check::same_bits;
  cases.push_back(c);
  return cases;
}

std::vector<Case> bias_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           "param table : f32[heads, 32] score relative_bias(table, bidirectional)",
           "param table : f16[heads, 32] score relative_bias(table, causal(max_distance = 40)) mask causal",
           "param table : bf16[1, 9] score relative_bias(table, bidirectional(20), align = top_left)",
           "param table : f32[heads, 41] score relative_bias(table)",
           "param bias : f16[batch, heads, sq, skv] score dense_bias(bias)",
           "param bias : f32[1, heads, sq, 1] score dense_bias(bias) mask causal",
           "param bias : bf16[batch, 1, 1, skv] score dense_bias(bias)",
           "param bias : f32[sq, skv] score dense_bias(bias) mask window(20)",
           "param bias : f32[skv] score scale(0.2) score dense_bias(bias)",
           "score decay mask causal",
           "param gamma : f32[heads] score decay(gamma = 1 / (1 + abs(gamma[h])), align = top_left)",
       })
    add(cases, set, "biased", body, 32);
  return cases;
}

std::vector<Case> normalizer_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           "score scale(0.2) mask causal normalize softmax_plus_one",
           "score scale(0.2) normalize sigmoid",
           "score scale(0.2) score alibi mask causal normalize sigmoid(bias = h - 3)",
           "score scale(0.2) mask causal && window(20) normalize relu",
           "query rope key rope score scale(0.2) normalize relu(scale = 0.05, squared = yes)",
           "param bias : f16[batch, 1, sq, skv] score scale(0.2) score dense_bias(bias) mask causal "
           "normalize silu",
           "score scale(0.2) score decay mask causal normalize retention",
           "score scale(0.02) normalize retention",
           "score scale(0.05) mask i >= j && i % 3 != 0 normalize none",
           "score scale(0.05) mask !window(9) normalize retention",
       })
    add(cases, set, "weighed", body, 32);
  Case c = make_case(program("weighed", {}, "score scale(0.1) mask i >= j && j != 5 normalize sigmoid"),
                     {1, 33, 67});
  c.data = Data::poison_seen;
  cases.push_back(c);
  Case negative = c;
  negative.program = program("weighed", {}, "score scale(0.1) mask i >= j && j != 5 normalize retention");
  cases.push_back(negative);
  c.data = Data::poison_masked;
  c.check = Check::same_bits;
  cases.push_back(c);
  cases.push_back(make_case(program("weighed", {}, "score scale(0.1) normalize retention"), {1, 5, 0}));
  return cases;
}

}  // namespace attnfuse::conformance
