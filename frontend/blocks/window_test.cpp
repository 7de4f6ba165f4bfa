#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

// Every pair of every shape against a predicate on (i, j, sq, skv).
template <class Predicate>
void check_mask(const std::string& lines, Predicate wanted) {
  CAPTURE(lines);
  StageValues values(lines);
  for (std::int64_t sq : {1, 5, 9})
    for (std::int64_t skv : {1, 6, 9})
      for (std::int64_t i = 0; i < sq; ++i)
        for (std::int64_t j = 0; j < skv; ++j) {
          CAPTURE(sq);
          CAPTURE(skv);
          CAPTURE(i);
          CAPTURE(j);
          CHECK(values.allowed({.i = i, .j = j, .sq = sq, .skv = skv}) == wanted(i, j, sq, skv));
        }
}

using Int = std::int64_t;

TEST_CASE("causal aligns the last query with the last key unless told otherwise") {
  const auto bottom_right = [](Int i, Int j, Int sq, Int skv) { return sq - 1 - i <= skv - 1 - j; };
  check_mask("mask causal", bottom_right);
  check_mask("mask causal(align = bottom_right)", bottom_right);
  check_mask("mask causal(top_left)", [](Int i, Int j, Int, Int) { return j <= i; });
}

TEST_CASE("window sees the last keys, or keys on both sides") {
  check_mask("mask window(3)", [](Int i, Int j, Int sq, Int skv) {
    const Int back = (skv - 1 - j) - (sq - 1 - i);
    return back == 0 || back == 1 || back == 2;
  });
  check_mask("mask window(left = 2, right = 1)", [](Int i, Int j, Int sq, Int skv) {
    const Int back = (skv - 1 - j) - (sq - 1 - i);
    return back == -1 || back == 0 || back == 1;
  });
  check_mask("mask window(1, 2, top_left)",
             [](Int i, Int j, Int, Int) { return i == j || i + 1 == j || i + 2 == j; });
}

TEST_CASE("masks combine with and, or and not, in one line and across lines") {
  const auto causal = [](Int i, Int j, Int sq, Int skv) { return j <= i + skv - sq; };
  check_mask("mask causal && window(2)",
             [&](Int i, Int j, Int sq, Int skv) { return causal(i, j, sq, skv) && j + 2 > i + skv - sq; });
  check_mask("mask causal || j < 4",
             [&](Int i, Int j, Int sq, Int skv) { return causal(i, j, sq, skv) || j < 4; });
  check_mask("mask !(causal && j != 2)",
             [&](Int i, Int j, Int sq, Int skv) { return !causal(i, j, sq, skv) || j == 2; });
  check_mask("mask causal; mask i % 2 == 0; mask !(j // 3 == 1)", [&](Int i, Int j, Int sq, Int skv) {
    return causal(i, j, sq, skv) && i % 2 == 0 && (j < 3 || j > 5);
  });
  check_mask("", [](Int, Int, Int, Int) { return true; });
  check_mask("mask true; mask false || i == j", [](Int i, Int j, Int, Int) { return i == j; });
}

TEST_CASE("masks read captured tensors") {
  StageValues values("param ids : i32[skv]; mask ids[i + skv - sq] == ids[j]");
  values.tensors["ids"] = {0, 0, 1, 1};
  CHECK(values.allowed({.i = 1, .j = 2, .sq = 2, .skv = 4}));
  CHECK_FALSE(values.allowed({.i = 1, .j = 1, .sq = 2, .skv = 4}));
}

}  // namespace
}  // namespace attnfuse
