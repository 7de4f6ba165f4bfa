#include <fmt/format.h>

#include "conformance/family.h"

// Sequences with lengths of their own, packed or in pages. Tiles have 16 to 128 rows, so lengths lie around
// these, and around pages.
namespace attnfuse::conformance {
namespace {

using AllLengths = std::vector<Lengths>;

// Nothing on either side, on both, first and last; one row; more queries than keys and the other way round.
const AllLengths kUneven{{0, 9}, {17, 65}, {1, 130}, {0, 0}, {33, 33}, {5, 0}};
const AllLengths kEmptyEnds{{0, 0}, {66, 20}, {0, 31}};
// max == 1: decoding, where a sequence may have no query.
const AllLengths kDecode{{1, 70}, {0, 33}, {1, 1}, {1, 128}};
const AllLengths kOdd{{2, 3}, {11, 31}, {31, 11}, {1, 2}, {67, 97}};
const AllLengths kLong{{337, 337}, {0, 63}, {1, 523}, {129, 200}, {0, 0}, {64, 64}};
const AllLengths kPrefill{{40, 40}, {24, 90}, {7, 129}};

Case stored_case(const std::string& text, const AllLengths& lengths, Layout layout = Layout::bhsd) {
  Case c;
  c.program = text;
  set_lengths(c, lengths);
  c.layout = layout;
  return c;
}

// Every sequence with as many queries.
AllLengths with_queries(AllLengths lengths, std::int64_t q) {
  for (Lengths& own : lengths) own.q = q;
  return lengths;
}

constexpr Dims kDims{.heads = 4, .kv_heads = 2, .head_dim = 64, .dtype = DType::f16};
constexpr Layout kLayouts[] = {Layout::bhsd, Layout::bshd, Layout::mixed, Layout::odd, Layout::padded};

// What reads lengths and positions, and what has paths of its own in kernels.
constexpr const char* kBodies[] = {
    "mask causal output max_logit",
    "query rope(theta = 10000) key rope(theta = 10000) mask causal",
    "score x + 0.01 * (skv - j) - 0.02 * (sq - i) mask window(20)",
    "param sink : f32[heads] normalize softmax(sink = sink[h]) mask causal(align = top_left)",
    "param bias : f32[heads, sq, skv] score x + bias[h, i, j] mask causal",
    "param ids : i32[batch, skv] mask document(ids)",
    "param gate : f32[batch, sq] output gated(gate[b, i]) mask causal",
    "normalize retention score decay",
    "query norm key norm output norm(layer) mask causal",
    "normalize sigmoid value x * (1 + 0.01 * j)",
};

std::vector<Case> cases_of(CaseSet set, const std::string& form) {
  const bool ragged = form.find("ragged") != std::string::npos;
  std::vector<Case> cases;
  const auto text = [&](const Dims& dims, const std::string& body) {
    return program("stored", dims, fmt::format("storage {} {}", form, body));
  };
  const auto add = [&](const Dims& dims, const std::string& body, const AllLengths& lengths,
                       Layout layout = Layout::bhsd) -> Case& {
    return cases.emplace_back(
        stored_case(text(dims, body),
                    ragged ? lengths : with_queries(lengths, lengths.size() % 2 == 0 ? 1 : 19), layout));
  };
  std::size_t turn = 0;
  const AllLengths all[] = {kUneven, kOdd, kDecode, kEmptyEnds};
  for (const char* body : kBodies) {
    Case& c = add(kDims, body, all[turn % 4], kLayouts[turn % 5]);
    c.seed = turn;
    ++turn;
    if (set == CaseSet::quick) continue;
    for (const AllLengths& lengths : all)
      for (Layout layout : kLayouts) add(kDims, body, lengths, layout).seed = turn++;
    add(kDims, body, kLong).seed = turn++;
  }
  return cases;
}

}  // namespace

std::vector<Case> ragged_cases(CaseSet set) {
  std::vector<Case> cases = cases_of(set, "ragged");
  const auto text = [](const Dims& dims, const std::string& body) {
    return program("stored", dims, "storage ragged " + body);
  };
  // Whatever a neighbour holds.
  Case c = stored_case(text(kDims, "mask causal"), {{20, 40}, {9, 77}, {33, 20}, {5, 5}, {18, 33}});
  c.data = Data::poison_others;
  cases.push_back(c);
  c.program = text(kDims, "");
  cases.push_back(c);
  // Unlike widths, types and heads.
  cases.push_back(
      stored_case(text({.heads = 6, .kv_heads = 1, .head_dim = 40, .dtype = DType::bf16}, ""), kOdd));
  cases.push_back(stored_case(
      text({.heads = 2, .kv_heads = 2, .head_dim = 32, .v_head_dim = 24, .dtype = DType::f32}, "mask causal"),
      kUneven));
  // Transformed ahead of attention, sequence by sequence.
  for (Rotation rotation : {Rotation::query, Rotation::key, Rotation::both}) {
    for (const AllLengths& lengths : {kUneven, kEmptyEnds, kLong}) {
      c = stored_case(
          text(kDims, "query norm query rope(theta = 10000) key norm key rope(theta = 10000) mask causal"),
          lengths, kLayouts[std::size_t(rotation) % 5]);
      c.rotation = rotation;
      cases.push_back(c);
    }
  }
  // The last rows of a sequence, alone.
  c = stored_case(text(kDims, std::string(kRope) + "mask causal"), kPrefill);
  c.check = Check::chunk;
  cases.push_back(c);
  c = stored_case(text(kDims, "mask causal"), kUneven);
  c.check = Check::repeat;
  cases.push_back(c);
  cases.push_back(stored_case(text(kDims, "mask causal"), {}));
  cases.push_back(stored_case(text(kDims, "mask causal"), {{0, 0}, {0, 12}}));
  if (set == CaseSet::quick) return cases;
  for (int head_dim : {64, 128, 192, 256})
    for (DType dtype : {DType::f16, DType::bf16, DType::f32})
      for (const char* mask : {"", "mask causal"}) {
        const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = dtype};
        cases.push_back(stored_case(text(dims, mask), kLong));
        cases.push_back(stored_case(text(dims, mask), {{1023, 1}, {0, 1}, {1, 2045}, {1063, 1063}}));
      }
  AllLengths many;
  for (std::int64_t n = 0; n < 200; ++n) many.push_back({n * 7 % 5, n * 11 % 37});
  cases.push_back(stored_case(text(kDims, "mask causal"), many));
  return cases;
}

std::vector<Case> paged_cases(CaseSet set) {
  std::vector<Case> cases = cases_of(set, "paged(page_size = 16)");
  for (Case& c : cases_of(CaseSet::quick, "ragged, paged(page_size = 8)")) cases.push_back(std::move(c));
  const auto text = [](const Dims& dims, int page_size, const std::string& body) {
    return program("stored", dims, fmt::format("storage ragged, paged(page_size = {}) {}", page_size, body));
  };
  std::size_t turn = 0;
  for (int page_size : {1, 7, 16, 64, 128, 256}) {
    Case c = stored_case(text(kDims, page_size, "mask causal"), turn % 2 == 0 ? kPrefill : kUneven,
                         kLayouts[turn % 5]);
    c.seed = ++turn;
    c.check = Check::page_order;
    cases.push_back(c);
    if (set == CaseSet::quick) continue;
    for (const AllLengths& lengths : {kLong, kOdd, kDecode, kUneven})
      for (Layout layout : kLayouts)
        for (int head_dim : {64, 128, 256})
          for (const char* mask : {"", "mask causal"}) {
            const Dims dims{.heads = 4, .kv_heads = 2, .head_dim = head_dim, .dtype = DType::bf16};
            cases.push_back(stored_case(text(dims, page_size, mask), lengths, layout));
          }
  }
  // Queries alone are transformed ahead of attention.
  Case c = stored_case(text(kDims, 16, std::string(kRope) + "mask causal"), kUneven);
  c.rotation = Rotation::query;
  cases.push_back(c);
  c.program = program("stored", kDims, "storage paged(page_size = 16) query rope(theta = 10000) mask causal");
  set_lengths(c, with_queries(kUneven, 19));
  cases.push_back(c);
  c = stored_case(text(kDims, 16, "mask causal"), kPrefill);
  c.pages = Pages::shared;
  cases.push_back(c);
  c = stored_case(text(kDims, 32, std::string(kRope) + "mask causal"), kPrefill);
  c.check = Check::chunk;
  cases.push_back(c);
  c = stored_case(text(kDims, 16, ""), {{20, 40}, {9, 77}, {33, 20}, {5, 5}, {18, 33}});
  c.data = Data::poison_others;
  cases.push_back(c);
  const Dims wide{.heads = 2, .kv_heads = 1, .head_dim = 40, .v_head_dim = 72, .dtype = DType::f32};
  cases.push_back(stored_case(text(wide, 12, "mask causal"), kOdd, Layout::bshd));
  cases.push_back(stored_case(text(kDims, 16, "mask causal"), {}));
  return cases;
}

}  // namespace attnfuse::conformance
