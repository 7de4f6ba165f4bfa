// Calls that must agree with each other. The quick set takes dtypes and shapes in turns.
#include "conformance/family.h"

namespace attnfuse::conformance {

std::vector<Case> metamorphic_cases(CaseSet set) {
  struct Row {
    Check check;
    const char* body;
  };
  constexpr Row kRows[] = {
      {Check::shift, "query rope key rope mask causal"},
      {Check::shift, "score softcap(5) score alibi mask window(20) || j < 3"},
      {Check::shift, "mask i % 3 != 0 && i >= j"},
      {Check::reverse, ""},
      {Check::reverse, "param keep : bool[batch, skv] mask keep[b, j] && i % 5 != 3"},
      {Check::reverse, "param bias : f16[batch, heads, sq, skv] key norm score x + bias[b, h, i, j]"},
      {Check::merge, ""},
      {Check::merge, "param keep : bool[batch, skv] score scale(0.2) mask keep[b, j] && i % 5 != 3"},
      {Check::merge, "query norm key norm score softcap(3)"},
      {Check::alone, "query rope key rope mask causal"},
      {Check::alone, "param ids : i32[batch, skv] mask document(ids) && causal"},
      {Check::alone, "param z : f16[batch, heads, sq, v_head_dim] output gated(z[b, h, i, d])"},
  };
  constexpr DType kDtypes[] = {DType::f16, DType::f32, DType::bf16};
  const Shape shapes[] = {{2, 37, 70}, {3, 66, 133}, {2, 1, 90}};
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const Row& row : kRows)
    for (std::size_t n = 0; n < (set == CaseSet::quick ? 1 : 3); ++n, ++turn) {
      const Dims dims{
          .heads = 4, .kv_heads = 2, .head_dim = turn % 2 == 0 ? 32 : 64, .dtype = kDtypes[turn % 3]};
      Case c = make_case(program("same", dims, row.body), shapes[turn / 2 % 3]);
      c.check = row.check;
      cases.push_back(c);
    }
  return cases;
}

}  // namespace attnfuse::conformance
