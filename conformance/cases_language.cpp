// What expressions can say, on every machine: the scalar operations, and gathers with several indices. The
// masks of the catalog have their family here too.
#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {

std::vector<Case> language_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           // Negative operands of every sign: // and % round toward minus infinity.
           "score x + 0.1 * ((i - j) // 3 + (j - i) % 5 + (i - j) // -4 + (j - 20) % -3)",
           "score x + 0.05 * (bit_and(i - j, 13) - bit_or(i, j) + bit_xor(j, 5) + bit_not(i))",
           "score x + 0.02 * (shift_left(i - j, 2) + shift_right(j - 40, 3)) mask bit_and(j, 3) != 2",
           "score x + min(abs(x), 2) - max(x, -1.5) + clamp(i - j, -3, 4) + floor((i - j) / 4) / 8",
           "score x + log(1 + abs(x)) + exp(-abs(x)) + exp2(-abs(x)) + log2(2 + abs(x))",
           "score x + sqrt(abs(x)) + rsqrt(1 + x * x) + sin(x) * cos(x) + 0.125 * to_i32((i - 2 * j) * 0.5)",
           "score x * erf(x) + erf(0.1 * (i - j))",
           "score x + select(i > j && h == 1 || b == 0, x * 0.5, 0.25 * j)",
           "param w : f32[4, heads] param n : i32[heads] score x + sum(n4 in 0..4) w[n4, h] * n[h] * n4",
           "param w : f16[3, sq, 1] param kept : bool[skv, 3] score x + sum(m in 0..3) select(kept[j, m], "
           "w[m, i, "
           "0], 1)",
           "param t : f32[batch, heads, 5, 7] param p : i32[batch, skv] score x + t[b, h, p[b, j] // 2, i % "
           "7]",
           "param kept : bool[heads, sq] mask sum(n in 0..3) (kept[h, i + n] && j % 3 == n) > 0 || i == j",
       }) {
    cases.push_back(
        make_case(program("said", {.heads = 4, .kv_heads = 2, .dtype = DType::f32}, body), {2, 33, 45}));
    if (set == CaseSet::full)
      cases.push_back(
          make_case(program("said", {.heads = 4, .kv_heads = 2, .head_dim = 64}, body), {2, 130, 200}));
  }
  return cases;
}

std::vector<Case> named_mask_cases(CaseSet set) {
  std::vector<Case> cases;
  const Shape shapes[] = {{2, 50, 50}, {2, 37, 133}, {1, 70, 45}};
  std::size_t turn = 0;
  for (const char* body : {
           "mask chunk(16) && causal",
           "mask chunk(21, top_left)",
           "mask prefix(9)",
           "param n : i32[batch] mask prefix(20 * n[b], top_left)",
           "param ids : i32[batch, skv] mask document(ids) && causal",
           "param ids : i32[batch, skv] param own : i32[1, sq] mask document(ids, query_ids = own)",
           "param offsets : i32[7] mask packed(offsets)",
           "param offsets : i32[9] mask packed(offsets) && causal",
           "param n : i32[batch] mask length(11 + 30 * n[b])",
           "param n : i32[1, batch] mask length(31 * n[0, b]) && window(20, 3)",
           "mask window(8, 8) || global(3)",
           "mask dilated(3) && window(40)",
           "param t : bool[batch, heads, 4, 9] mask block_mask(t, 16, 16)",
           "param t : bool[3, 5] mask block_mask(t, 32, 32) && causal",
           "param list : i32[batch, heads, 5, 3] mask block_list(list, 16, 32)",
           "param list : i32[1, 3, 2] mask block_list(list, 64, 64) || i == j",
           "param seen : bool[batch, sq, sq] mask tree(seen)",
           "param parent : i32[batch, sq] mask tree_path(parent, 6)",
           "param far : bool[heads] mask select(far[h], causal, causal && window(12))",
           "param far : bool[heads] mask far[h] && !chunk(16) || !(far[h] || window(9)) || i == j",
       }) {
    const DType dtype = turn % 3 == 0 ? DType::f32 : turn % 3 == 1 ? DType::f16 : DType::bf16;
    const std::string text = program("masked", {.heads = 4, .kv_heads = 2, .dtype = dtype}, body);
    cases.push_back(make_case(text, shapes[turn++ % 3]));
    if (set == CaseSet::full)
      for (const Shape& shape : {Shape{2, 257, 130}, Shape{1, 1, 200}, Shape{1, 300, 300}})
        cases.push_back(make_case(text, shape));
  }
  return cases;
}

}  // namespace attnfuse::conformance
