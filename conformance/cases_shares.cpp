// Few query rows and many keys: workgroups divide the keys, and a kernel after attention merges what they
// found.
#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {

std::vector<Case> share_cases(CaseSet set) {
  std::vector<Case> cases;
  const auto add = [&](const Dims& dims, const Shape& shape, const std::string& body,
                       Data data = Data::normal, Check check = Check::value) {
    Case c = make_case(program("shared", dims, body), shape);
    c.data = data;
    c.check = check;
    cases.push_back(c);
  };
  const Dims one{.heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = DType::bf16};
  const Dims wide{.heads = 3, .kv_heads = 3, .head_dim = 128, .dtype = DType::f16};
  const Dims exact{.heads = 4, .kv_heads = 1, .head_dim = 40, .v_head_dim = 72, .dtype = DType::f32};
  add(one, {1, 1, 1500}, "mask causal");
  add(one, {1, 7, 1100}, "param sink : f32[heads] mask causal normalize softmax(sink = sink)");
  add(wide, {1, 1, 1030}, "score softcap(20) score alibi");
  add(exact, {1, 1, 1600}, "query rope key rope mask causal");
  // Shares without keys, and rows without any.
  add(one, {1, 3, 2000}, "param sink : f32[heads] mask window(50) normalize softmax(sink = sink)");
  add(exact, {1, 2, 1300}, "mask j > 1200 && j < 1210 && i == 1");
  add(one, {1, 1, 1400}, "mask j % 400 < 3");
  add(one, {1, 5, 1200}, "mask causal", Data::poison_seen);
  add(wide, {1, 5, 1200}, "mask window(700)", Data::poison_masked, Check::same_bits);
  add(one, {1, 1, 1300}, "score scale(0.2) mask causal", Data::large_logit);
  add(one, {1, 4, 1100}, "mask causal", Data::normal, Check::decode);
  add(one, {1, 3, 1100}, "param seed : i32 weights dropout(0.3, seed)", Data::normal, Check::repeat);
  // In pages, of sequences with lengths of their own.
  const auto add_paged = [&](const Dims& dims, int page_size, std::vector<Lengths> lengths,
                             const std::string& body, Data data = Data::normal) {
    Case c = make_case(
        program("shared", dims, fmt::format("storage paged(page_size = {}) {}", page_size, body)), {});
    set_lengths(c, std::move(lengths));
    c.data = data;
    cases.push_back(c);
  };
  add_paged(one, 16, {{1, 1500}}, "mask causal");
  add_paged(one, 64, {{1, 1025}, {1, 0}, {1, 3}}, "mask causal");
  add_paged(wide, 256, {{7, 1100}, {7, 520}}, "param sink : f32[heads] normalize softmax(sink = sink)");
  add_paged(exact, 16, {{1, 1300}, {1, 700}}, "mask window(600)");
  add_paged(one, 16, {{1, 1200}, {1, 90}}, "mask causal", Data::poison_others);
  if (set == CaseSet::quick) return cases;
  for (int page_size : {1, 16, 100, 256})
    for (const Dims& dims : {one, wide, exact})
      for (const char* body : {"mask causal", "mask window(1000)", "score alibi"})
        add_paged(dims, page_size, {{1, 4099}, {1, 513}, {1, 0}}, body);
  for (const Dims& dims : {one, wide, exact})
    for (const Shape& shape :
         {Shape{1, 1, 8191}, Shape{2, 1, 4099}, Shape{1, 16, 4096}, Shape{1, 100, 3000}, Shape{3, 2, 2049}})
      for (const char* body :
           {"mask causal", "mask window(1000)", "score alibi", "mask causal weights x * 0.5"})
        add(dims, shape, body);
  return cases;
}

}  // namespace attnfuse::conformance
