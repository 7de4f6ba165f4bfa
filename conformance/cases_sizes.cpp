#include <algorithm>

#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};

// Rows of more than 256 elements turn in part, as those of models do: drivers compile the whole for long.
std::string rotated(int head_dim) {
  return head_dim <= 256 ? kRope
                         : "query rope(dims = 16) key rope(dims = 8, pairs = interleaved, start = 8) ";
}

}  // namespace

std::vector<Case> shape_cases(CaseSet set) {
  std::vector<Case> cases;
  const Dims dims{.heads = 2, .kv_heads = 1, .head_dim = 64, .dtype = DType::f16};
  const std::string masked = program("causal_rope", dims, std::string(kRope) + "mask causal");
  const std::string open = program("open", dims, "");
  const std::vector<std::int64_t> lengths = {0,  1,  2,  3,  11, 15,  16,  17,  31,
                                             32, 33, 63, 64, 65, 127, 128, 129, 337};
  if (set == CaseSet::full) {
    for (std::int64_t sq : lengths)
      for (std::int64_t skv : lengths)
        for (const std::string& text : {masked, open}) cases.push_back(make_case(text, {2, sq, skv}));
    for (std::int64_t prime : {523, 1063})
      for (DType dtype : kDtypes)
        cases.push_back(make_case(
            program("causal_rope", {.head_dim = 128, .dtype = dtype}, std::string(kRope) + "mask causal"),
            {1, prime, prime}));
  } else {
    for (std::int64_t length : lengths) {
      cases.push_back(make_case(masked, {1, length, length}));
      cases.push_back(make_case(masked, {1, 1, length}));
      cases.push_back(make_case(masked, {2, 33, length}));
      cases.push_back(make_case(open, {1, length, 65}));
      cases.push_back(make_case(open, {1, 17, length}));
    }
  }
  // A tile of its own for the last key, whatever tiles a schedule has.
  for (std::int64_t tile : {48, 80, 96, 112, 144, 160, 176, 192, 224, 256})
    cases.push_back(make_case(open, {1, 17, tile + 1}));
  for (std::int64_t batch : {0, 1, 3, 70}) cases.push_back(make_case(masked, {batch, 5, 9}));
  // Long calls may get other tiles than short ones.
  cases.push_back(make_case(masked, {1, 1100, 300}));
  cases.push_back(make_case(open, {1, 1030, 65}));
  const Dims wide{.heads = 1, .kv_heads = 1, .head_dim = 128, .dtype = DType::bf16};
  cases.push_back(make_case(program("long", wide, "mask j - i < 3"), {1, 4130, 150}));
  return cases;
}

std::vector<Case> group_cases(CaseSet set) {
  struct Heads {
    int heads, kv_heads;
  };
  constexpr Heads kHeads[] = {{3, 3}, {4, 2}, {6, 2},  {8, 2},  {6, 1}, {8, 1}, {12, 2},
                              {5, 1}, {7, 1}, {12, 4}, {16, 1}, {3, 1}, {4, 1}};
  std::vector<Case> cases;
  for (const Heads& heads : kHeads) {
    const Dims dims{.heads = heads.heads, .kv_heads = heads.kv_heads, .head_dim = 32, .dtype = DType::bf16};
    // A mask and a bias of the query head show which head a row belongs to.
    const std::string text =
        program("grouped", dims, "param bias : f32[heads] score x + bias[h] * j mask j != h && i >= j - 20");
    cases.push_back(make_case(text, {2, 18, 35}));
    // One query row: the heads that share keys become the rows of a tile.
    cases.push_back(make_case(
        program("grouped", dims, "param sink : f32[heads] normalize softmax(sink = sink[h])"), {2, 1, 9}));
    if (set == CaseSet::full) {
      cases.push_back(make_case(text, {1, 1, 100}));
      cases.push_back(make_case(program("grouped", dims, std::string(kRope) + "mask causal"), {2, 150, 150}));
    }
  }
  return cases;
}

std::vector<Case> head_dim_cases(CaseSet set) {
  std::vector<Case> cases;
  for (int head_dim = 8; head_dim <= 576; head_dim += 8) {
    constexpr int kQuick[] = {8, 16, 24, 40, 64, 72, 80, 96, 104, 128, 192, 256, 320, 576};
    const bool quick = std::ranges::find(kQuick, head_dim) != std::end(kQuick);
    for (DType dtype : kDtypes) {
      const DType second = head_dim % 16 == 0 ? DType::f32 : DType::bf16;
      if (set == CaseSet::quick && (!quick || (dtype != DType::f16 && dtype != second))) continue;
      const std::string text =
          program("wide", {.head_dim = head_dim, .dtype = dtype}, rotated(head_dim) + "mask causal");
      cases.push_back(make_case(text, {1, 35, 70}));
      if (set == CaseSet::full) cases.push_back(make_case(text, {2, 129, 200}));
    }
  }
  return cases;
}

std::vector<Case> value_dim_cases(CaseSet set) {
  struct Pair {
    int head_dim, v_head_dim;
  };
  constexpr Pair kPairs[] = {{32, 24}, {24, 32}, {64, 128},  {128, 64}, {192, 128},
                             {8, 256}, {256, 8}, {576, 512}, {72, 328}, {264, 16}};
  std::vector<Case> cases;
  for (const Pair& pair : kPairs)
    for (DType dtype : kDtypes) {
      if (set == CaseSet::quick && (dtype == DType::bf16 || (dtype == DType::f32 && pair.head_dim > 64)))
        continue;
      const Dims dims{.head_dim = pair.head_dim, .v_head_dim = pair.v_head_dim, .dtype = dtype};
      cases.push_back(make_case(
          program("uneven", dims, rotated(std::max(pair.head_dim, pair.v_head_dim)) + "mask causal"),
          {1, 20, 45}));
      if (set == CaseSet::full)
        cases.push_back(make_case(program("uneven", dims, "mask window(50)"), {2, 130, 130}));
    }
  // Values in parts, with all that touches them: outputs, what is not finite, shares of the keys, storage.
  const Dims wide{.heads = 4, .kv_heads = 1, .head_dim = 40, .v_head_dim = 520, .dtype = DType::bf16};
  for (const char* body : {
           "param sink : f32[heads] mask causal normalize softmax(sink = sink[h])",
           "param z : f32[batch, heads, sq, v_head_dim] mask causal output gated(z[b, h, i, d])",
           "mask window(9) normalize sigmoid output x * (1 + 0.01 * d)",
           "output max_logit",
       })
    cases.push_back(make_case(program("parted", wide, body), {2, 20, 45}));
  Case c = make_case(program("parted", wide, "mask window(12)"), {1, 30, 50});
  c.data = Data::poison_seen;
  cases.push_back(c);
  c.layout = Layout::odd;
  cases.push_back(c);
  cases.push_back(make_case(program("parted", wide, ""), {1, 1, 700}));
  const Dims latent{.heads = 8, .kv_heads = 1, .head_dim = 576, .v_head_dim = 512, .dtype = DType::bf16};
  cases.push_back(make_case(program("latent", latent, "mask causal"), {2, 1, 600}));
  c = make_case(program("latent", latent, "storage ragged, paged(page_size = 16) mask causal"), {});
  set_lengths(c, {{1, 40}, {5, 19}});
  cases.push_back(c);
  return cases;
}

std::vector<Case> layout_cases(CaseSet set) {
  std::vector<Case> cases;
  for (DType dtype : kDtypes)
    for (int head_dim : {64, 40}) {
      if (set == CaseSet::quick && head_dim == 40 && dtype != DType::f16) continue;
      const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = dtype};
      const std::string text = program("strided", dims, std::string(kRope) + "mask causal");
      for (const auto& layout : layouts())
        for (const Shape& shape : {Shape{2, 33, 47}, Shape{3, 1, 70}}) {
          if (layout.kind == Layout::far) continue;
          Case c = make_case(text, shape);
          c.layout = layout.kind;
          cases.push_back(c);
        }
    }
  return cases;
}

std::vector<Case> big_stride_cases(CaseSet set) {
  std::vector<Case> cases;
  for (DType dtype : kDtypes) {
    if (set == CaseSet::quick && dtype == DType::f32) continue;  // twice the addresses
    const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = dtype};
    Case c = make_case(program("far", dims, "mask causal"), {1, 20, 70});
    c.layout = Layout::far;
    cases.push_back(c);
    c.program = program("far", dims, std::string(kRope) + "mask window(30)");
    cases.push_back(c);
    c.program = program("far", {.heads = 2, .kv_heads = 2, .head_dim = 32, .dtype = dtype},
                        "param bias : f16[1, heads, sq, skv] score x + bias[b, h, i, j]");
    cases.push_back(c);
  }
  return cases;
}

}  // namespace attnfuse::conformance
