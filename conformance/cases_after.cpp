// What happens to weights after the softmax and to outputs after the second product. The quick set takes
// dtypes, shapes and head dims in turns.
#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::f32, DType::bf16};
constexpr Shape kShapes[] = {{2, 37, 70}, {1, 130, 130}, {2, 1, 90}, {1, 66, 40}};

constexpr const char* kBodies[] = {
    // Gates, and expressions of the user's own.
    "param z : f16[batch, heads, sq, v_head_dim] mask causal output gated(z[b, h, i, d])",
    "param z : f32[batch, heads, sq] output gated(z[b, h, i])",
    "param z : bf16[heads, v_head_dim] mask window(30) output x * (1 + z[h, d]) - 0.01 * i",
    "param z : f32[sq] mask causal output clip(0.5) output select(d < 9, max(x, z[i]), x)",
    "mask i < 20 || j % 3 == 0 output x * x output x + 0.5",
    "output tanh(3 * x) output scale(0.25)",
    // Norms.
    "mask causal output norm",
    "param w : f32[v_head_dim] output norm(weight = w, unit_offset = yes) output scale(0.2)",
    "param w : bf16[heads, v_head_dim] param c : f32[v_head_dim] mask window(40, 40) output norm(layer, "
    "weight "
    "= w, bias = c, eps = 0.01)",
    "param z : f32[batch, heads, sq, v_head_dim] mask causal output norm(eps = 0.01) output gated(z[b, h, i, "
    "d])",
    "normalize retention score scale(0.1) mask causal output norm(layer)",
    // Rotations back.
    "query rope key rope value rope mask causal output inverse_rope",
    "value rope(pairs = interleaved, dims = 8) output inverse_rope(pairs = interleaved, dims = 8)",
    "param at : i32[batch, sq] mask causal output inverse_rope(dims = 16, position = at[b, i])",
    "output inverse_rope(dims = 12, scaling = yarn(8, 64)) output norm",
    "output norm(eps = 0.1) output inverse_rope(pairs = interleaved)",
    // The largest score.
    "score scale(0.3) mask causal output max_logit",
    "param sink : f32[heads] score softcap(5) score alibi mask window(20) normalize softmax(sink = sink) "
    "output max_logit output x * 2",
    // Dropout, and other factors of weights.
    "param seed : i32 weights dropout(0.3, seed)",
    "param seed : i32 param p : f32 mask causal weights dropout(0.25 + 0.5 * abs(sin(p)), seed)",
    "param seed : i32[2] score scale(0.3) mask window(50) weights dropout(0.1, seed[1]) output norm",
    "param w : f32[heads, skv] mask causal weights x * w[h, j] weights x * (1 + 0.1 * (i % 2))",
    "score scale(0.1) normalize sigmoid weights x * select(i == j, 0.0, 1.0)",
};

// Dims along which pairs lie in other places of the accumulator.
constexpr int kHeadDims[] = {32, 64, 48, 128};

}  // namespace

std::vector<Case> after_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : kBodies) {
    const std::size_t turn = cases.size();
    Dims dims{.heads = 4, .kv_heads = 2, .head_dim = kHeadDims[turn % 4], .dtype = kDtypes[turn % 3]};
    if (set == CaseSet::quick) {
      cases.push_back(make_case(program("after", dims, body), kShapes[turn % 4]));
      continue;
    }
    for (DType dtype : kDtypes)
      for (int head_dim : kHeadDims)
        for (const Shape& shape : kShapes) {
          dims = {.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = dtype};
          cases.push_back(make_case(program("after", dims, body), shape));
        }
  }
  // Values that are not finite, in slots that no query of some rows may see, pass through what comes after.
  for (const char* body : {
           "param z : f16[batch, heads, sq, v_head_dim] mask causal output gated(z[b, h, i, d])",
           "mask window(20) output clip(0.5)",
           "mask causal output norm",
           "mask causal output inverse_rope",
       })
    for (DType dtype : {DType::f16, DType::bf16}) {
      const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = dtype};
      for (const Shape& shape : {Shape{1, 100, 100}, Shape{2, 40, 90}}) {
        Case c = make_case(program("after_poison", dims, body), shape);
        c.data = Data::poison_seen;
        cases.push_back(c);
        if (set == CaseSet::quick && dtype == DType::bf16) continue;
        c.data = Data::poison_masked;
        c.check = Check::same_bits;
        cases.push_back(c);
      }
    }
  return cases;
}

}  // namespace attnfuse::conformance
