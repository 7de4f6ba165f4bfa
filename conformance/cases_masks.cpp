#include <fmt/format.h>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

constexpr Dims kDims{.heads = 2, .kv_heads = 1, .head_dim = 32, .v_head_dim = 0, .dtype = DType::f16};

}  // namespace

std::vector<Case> align_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* mask :
       {"causal", "causal(top_left)", "causal(bottom_right)", "window(17)", "window(9, 4)"})
    for (const Shape& shape : {Shape{1, 16, 16}, Shape{1, 1, 16}, Shape{1, 16, 1}, Shape{1, 33, 70},
                               Shape{1, 70, 33}, Shape{1, 129, 40}, Shape{1, 16, 142}}) {
      cases.push_back(make_case(program("aligned", kDims, fmt::format("mask {}", mask)), shape));
      if (set == CaseSet::full)
        cases.push_back(make_case(
            program("aligned", {.head_dim = 128, .dtype = DType::bf16}, fmt::format("mask {}", mask)),
            {2, shape.sq * 3, shape.skv * 5}));
    }
  return cases;
}

std::vector<Case> window_cases(CaseSet set) {
  std::vector<Case> cases;
  constexpr int kLength = 130;
  for (int width : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, kLength - 1, kLength, kLength + 1, 100000}) {
    const std::string text = program("windowed", kDims, fmt::format("mask window({})", width));
    cases.push_back(make_case(text, {1, kLength, kLength}));
    if (set == CaseSet::full)
      for (const Shape& shape : {Shape{1, 1, 300}, Shape{1, 70, 300}, Shape{1, 300, 70}, Shape{2, 515, 515}})
        cases.push_back(make_case(text, shape));
  }
  // The first tile is all but one key of the last row wide.
  cases.push_back(make_case(program("windowed", kDims, "mask window(141)"), {1, 16, 142}));
  return cases;
}

std::vector<Case> empty_row_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {"mask i % 3 != 0", "mask i >= 20 && j < 40", "mask i < 0", "mask j > i + 10",
                           "mask causal", "param keep : bool[sq] mask keep[i]", "mask h == 1 && i >= j"})
    for (DType dtype : {DType::f16, DType::f32}) {
      Dims dims = kDims;
      dims.dtype = dtype;
      const std::string text = program("emptied", dims, body);
      cases.push_back(make_case(text, {1, 50, 50}));
      cases.push_back(make_case(text, {2, 70, 20}));
      if (set == CaseSet::full) cases.push_back(make_case(text, {2, 200, 100}));
    }
  for (const Shape& shape : {Shape{1, 7, 0}, Shape{2, 100, 0}})
    cases.push_back(make_case(program("emptied", kDims, ""), shape));
  // Whatever weighs the rows, and whether tiles are found empty by their bounds or one by one.
  for (const char* normalize : {"relu", "sigmoid", "retention", "softmax"})
    for (const char* body :
         {"mask j < 0", "mask i < 0", "param keep : bool[batch, skv] mask j < 0 && (keep[b, j] || i > j)"})
      cases.push_back(make_case(
          program("emptied", kDims, fmt::format("score scale(0.1) {} normalize {}", body, normalize)),
          {2, 16, 32}));
  // A bias of the most negative finite number is no mask: the row is the average of its values.
  cases.push_back(make_case(program("biased", kDims, "score x * 0 - 3.4e38 * (i % 2)"), {1, 20, 33}));
  return cases;
}

std::vector<Case> first_tile_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body :
       {"mask j >= 70", "mask j >= 70 + i", "mask j >= 64 || i < 5", "mask j % 64 >= 60",
        "param keep : bool[skv] mask keep[j] && j > 66", "mask (j < 3 || j > 100) && i + j != 110"})
    for (const Shape& shape : {Shape{1, 20, 150}, Shape{1, 70, 133}}) {
      cases.push_back(make_case(program("late", kDims, body), shape));
      if (set == CaseSet::full)
        for (DType dtype : {DType::bf16, DType::f32})
          cases.push_back(make_case(program("late", {.head_dim = 128, .dtype = dtype}, body),
                                    {2, shape.sq, shape.skv * 3}));
    }
  // Empty tiles between others, as wide as tiles may be.
  cases.push_back(make_case(program("late", kDims, "mask j < 3 || j > 520"), {1, 20, 700}));
  return cases;
}

std::vector<Case> mask_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           "mask i >= j",
           "mask i >= j && i - j < 20",
           "mask i - j < 16 && j - i < 16",
           "mask !(i < j)",
           "mask j < 10 || i >= j",
           "mask i // 16 == j // 16",
           "mask (i - j) % 4 == 0 && i >= j",
           "mask i >= j mask i - j < 30 mask j != 7",
           "mask i >= j || (h == 1 && j < 5)",
           "mask h == 0 || i - j < 12 && i >= j",
           "mask b == 0 || i >= j",
           "mask causal && !window(10)",
           "mask causal || j < 8",
           "mask window(20) || j < 4",
           "mask max(i, j) < 40",
           "mask i * j < 600",
           "mask abs(i - j) > 3",
           "param keys : i32[batch] mask j < 10 + keys[b]",
           "param ids : i32[batch, skv] mask ids[b, i] == ids[b, j]",
           "param grid : bool[sq, skv] mask grid[i, j]",
       }) {
    const std::string text = program("masked", kDims, body);
    cases.push_back(make_case(text, {2, 50, 50}));
    cases.push_back(make_case(text, {1, 67, 133}));
    if (set == CaseSet::full)
      for (const Shape& shape : {Shape{2, 257, 130}, Shape{1, 1, 200}, Shape{1, 300, 300}})
        cases.push_back(make_case(text, shape));
  }
  return cases;
}

// Several tiles of rows and keys, so that some are empty and some whole for these data.
std::vector<Case> data_bound_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body : {
           "param ids : i32[batch, skv] mask document(ids) && causal",
           "param shuffled : i32[batch, skv] mask document(shuffled)",
           "param padding : bool[batch, skv] mask padding[b, j] && causal",
           "param reach : i32[heads, skv] mask j <= 9 * reach[h, i] || i == j",
           "param ids : i32[batch, skv] mask ids[b, i] < ids[b, j] || j < 3",
       }) {
    const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = DType::bf16};
    const std::string text = program("bounded", dims, body);
    cases.push_back(make_case(text, {2, 300, 300}));
    if (set == CaseSet::full)
      for (const Shape& shape : {Shape{1, 1, 700}, Shape{2, 515, 515}, Shape{1, 130, 1100}})
        cases.push_back(make_case(text, shape));
  }
  // Rows 64 and 128 see more keys than the rows after them.
  cases.push_back(make_case(
      program("bounded", kDims, "param reach : i32[heads, skv] mask j >= 150 * reach[h, i]"), {1, 193, 193}));
  return cases;
}

std::vector<Case> poison_cases(CaseSet set) {
  std::vector<Case> cases;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (const char* body : {"mask window(9) && j < 40", "mask j % 3 == 1", "mask j < 21 && j >= 4",
                             "param keep : bool[skv] mask keep[j]", "mask i >= j && j != 5",
                             "score softcap(4) mask j % 3 != 1"}) {
      if (set == CaseSet::quick && dtype == DType::bf16) continue;
      Dims dims = kDims;
      dims.dtype = dtype;
      for (const char* rope : {"", kRope}) {
        if (set == CaseSet::quick && *rope && dtype == DType::f32) continue;
        Case c = make_case(program("poisoned", dims, std::string(rope) + body), {1, 33, 67});
        c.data = Data::poison_masked;
        c.check = Check::same_bits;
        cases.push_back(c);
        if (set == CaseSet::quick && *rope) continue;
        c.data = Data::poison_seen;
        c.check = Check::value;
        cases.push_back(c);
        if (set == CaseSet::quick) continue;
        c.sq = 300;
        c.skv = 300;
        cases.push_back(c);
      }
    }
  return cases;
}

std::vector<Case> decode_cases(CaseSet set) {
  std::vector<Case> cases;
  for (const char* body :
       {"", "mask causal", "mask window(16)", "mask causal && window(40)", "mask causal || j < 4",
        "score softcap(5) mask window(33)", "mask causal && chunk(32)",
        "param ids : i32[batch, skv] mask causal && document(ids)",
        "param sink : f32[heads] mask window(16) normalize softmax(sink = sink[h])"})
    for (const Shape& shape : {Shape{2, 70, 70}, Shape{1, 9, 66}}) {
      const Dims dims{.heads = 8, .kv_heads = 1, .head_dim = 64, .dtype = DType::bf16};
      Case c = make_case(program("decoded", dims, std::string(kRope) + body), shape);
      c.check = Check::decode;
      cases.push_back(c);
      if (set == CaseSet::quick) continue;
      c.skv += 500;
      cases.push_back(c);
    }
  return cases;
}

}  // namespace attnfuse::conformance
