// Differential attention: two score heads, one kernel. The quick set takes dtypes, dims and shapes in turns.
#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::f32, DType::bf16};
constexpr Shape kShapes[] = {{2, 37, 70}, {1, 130, 130}, {2, 1, 90}, {1, 66, 40}};
// Of keys and of values: twice as wide in the papers, but any pair will do.
constexpr std::pair<int, int> kHeadDims[] = {{32, 64}, {64, 128}, {40, 80}, {64, 24}};

constexpr const char* kBodies[] = {
    // As the papers have it.
    "param l : f32[heads] score scale(0.18) mask causal output differential(l) output norm(eps = 1e-5) "
    "output scale(0.2)",
    "param l1 : f32[head_dim] param l2 : f32[head_dim] query rope key rope mask causal output "
    "differential(exp(0.3 * l1[0] * l2[0]) - exp(0.2 * l1[1] * l2[1]) + 0.8) output norm",
    "output differential(0.3)",
    "param l : f16[batch, heads] mask window(20) output differential(0.5 * l[b, h]) output norm(layer)",
    "param l : f32 mask causal(align = top_left) output differential(-l)",
    // Transforms, scores and weights of both heads.
    "query norm key norm query rope(pairs = interleaved) key rope(pairs = interleaved) mask causal output "
    "differential(0.4)",
    "param m : f32[heads] score softcap(5) score alibi(m) mask i >= j || j % 3 == 0 output differential(0.7)",
    "param bias : f32[heads, sq, skv] score x + bias[h, i, j] output differential(0.6)",
    "value rope output differential(0.5) output inverse_rope",
    "output differential(0.5) output inverse_rope(pairs = interleaved, dims = 8) output norm(eps = 0.1)",
    "param sink : f32[heads] mask window(30) normalize softmax(sink = sink) output differential(0.5)",
    "score scale(0.1) mask causal normalize sigmoid output differential(0.5)",
    "normalize retention score scale(0.1) mask causal output differential(0.5) output norm",
    "param seed : i32 mask causal weights dropout(0.3, seed) output differential(0.5)",
    "param z : f16[batch, heads, sq, v_head_dim] mask causal output differential(0.5) output gated(z[b, h, "
    "i, "
    "d])",
    "score scale(0.3) mask causal output max_logit output differential(0.5)",
    // Masks that leave rows, and first tiles, without keys; that only the data tell.
    "mask i % 3 != 0 && j >= 40 output differential(0.5)",
    "mask j > i + 20 output differential(0.5) output x + 1",
    "param ids : i32[batch, skv] mask document(ids) output differential(0.5)",
};

}  // namespace

std::vector<Case> differential_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : kBodies) {
    const std::size_t turn = cases.size();
    for (std::size_t n = 0; n < (set == CaseSet::quick ? 1 : 12); ++n) {
      const auto [head_dim, v_head_dim] = kHeadDims[(turn + n) % 4];
      const Dims dims{.heads = 4,
                      .kv_heads = n % 2 == 0 ? 2 : 4,
                      .head_dim = head_dim,
                      .v_head_dim = v_head_dim,
                      .dtype = kDtypes[(turn + n) % 3]};
      cases.push_back(make_case(program("differential", dims, body), kShapes[(turn / 2 + n / 3) % 4]));
    }
  }
  const Dims dims{.heads = 6, .kv_heads = 2, .head_dim = 32, .v_head_dim = 64, .dtype = DType::f16};
  const std::string causal = program("differential", dims, "mask causal output differential(0.5)");
  for (const Shape& shape : {Shape{1, 0, 10}, Shape{2, 10, 0}, Shape{1, 1, 1}, Shape{1, 300, 5}})
    cases.push_back(make_case(causal, shape));
  for (Layout layout : {Layout::mixed, Layout::odd, Layout::sbhd}) {
    cases.push_back(make_case(causal, {2, 50, 90}));
    cases.back().layout = layout;
  }
  for (const char* mask : {"mask causal", "mask window(20)"})
    for (const char* after : {"", "output norm"}) {
      Case c =
          make_case(program("differential", dims, std::string(mask) + " output differential(0.5) " + after),
                    {2, 60, 90});
      c.data = Data::poison_seen;
      cases.push_back(c);
      c.data = Data::poison_masked;
      c.check = Check::same_bits;
      cases.push_back(c);
    }
  Case decode = make_case(causal, {2, 70, 70});
  decode.check = Check::decode;
  cases.push_back(decode);
  // Both heads' keys lie in pages, and all are transformed inside, whatever the storage.
  for (const char* form : {"ragged", "paged(16)", "ragged, paged(16)"})
    for (const char* turned : {"", "query rope key rope "}) {
      Case c = make_case(
          program("differential", dims,
                  std::string("storage ") + form + " " + turned + "mask causal output differential(0.5)"),
          {0, 0, 0});
      set_lengths(c, form[0] == 'r' ? std::vector<Lengths>{{19, 33}, {40, 70}, {0, 5}}
                                    : std::vector<Lengths>{{19, 33}, {19, 70}});
      cases.push_back(c);
    }
  // One query row: the heads that share keys are the rows of a tile. Many keys: no shares of them to merge.
  const std::string grouped =
      program("differential", dims, "param l : f32[batch, heads] mask causal output differential(l[b, h])");
  for (std::int64_t keys : {90, 1100}) cases.push_back(make_case(grouped, {2, 1, keys}));
  // Values that are divided among workgroups, by columns.
  for (const char* body : {"mask causal output differential(0.5)",
                           "query rope key rope mask causal output differential(0.5) output x + 0.01 * d"}) {
    const Dims wide{.heads = 2, .kv_heads = 1, .head_dim = 64, .v_head_dim = 512, .dtype = DType::f16};
    for (Data data : {Data::normal, Data::poison_seen}) {
      cases.push_back(make_case(program("differential", wide, body), {1, 40, 70}));
      cases.back().data = data;
    }
  }
  return cases;
}

}  // namespace attnfuse::conformance
