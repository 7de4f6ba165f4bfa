#include <set>

#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

using Int = std::int64_t;

struct Pair2 {
  Int b, h, i, j, sq, skv;
  Int p() const { return i + skv - sq; }
};

// Every pair of these shapes against a predicate.
template <class Predicate>
void check_mask(StageValues& values, std::initializer_list<std::pair<Int, Int>> shapes, Predicate wanted) {
  for (const auto& [sq, skv] : shapes)
    for (Int b : {0, 1})
      for (Int h : {0, 3})
        for (Int i = 0; i < sq; ++i)
          for (Int j = 0; j < skv; ++j) {
            const Pair2 pair{b, h, i, j, sq, skv};
            CAPTURE(sq);
            CAPTURE(skv);
            CAPTURE(b);
            CAPTURE(h);
            CAPTURE(i);
            CAPTURE(j);
            REQUIRE(values.allowed({.b = b, .h = h, .i = i, .j = j, .batch = 2, .sq = sq, .skv = skv}) ==
                    wanted(pair));
          }
}

template <class Predicate>
void check_mask(const std::string& lines, Predicate wanted) {
  CAPTURE(lines);
  StageValues values(lines);
  check_mask(values, {{1, 1}, {1, 9}, {5, 5}, {9, 13}, {13, 6}}, wanted);
}

TEST_CASE("chunk keeps pairs that no chunk border parts") {
  const auto apart = [](Int a, Int b, Int size) {
    for (Int border = -20 * size; border < 20 * size; border += size)
      if ((a < border) != (b < border)) return true;
    return false;
  };
  check_mask("mask chunk(4)", [&](const Pair2& x) { return !apart(x.p(), x.j, 4); });
  check_mask("mask chunk(3, top_left) && causal(top_left)",
             [&](const Pair2& x) { return !apart(x.i, x.j, 3) && x.j <= x.i; });
}

TEST_CASE("prefix shows its keys to all and the others as causal does") {
  check_mask("mask prefix(4)", [](const Pair2& x) { return x.j <= 3 || x.p() >= x.j; });
  StageValues values("param n : i32[batch]; mask prefix(n[b] + 1, top_left)");
  values.tensors["n"] = {2, -1};
  check_mask(values, {{2, 7}, {7, 2}, {5, 5}},
             [](const Pair2& x) { return x.i >= x.j || (x.b == 0 && x.j < 3); });
}

TEST_CASE("length ends the keys of a batch entry") {
  StageValues values("param n : i32[batch]; mask length(n[b])");
  values.tensors["n"] = {3, 0};
  check_mask(values, {{2, 7}, {7, 2}}, [](const Pair2& x) { return x.b == 0 && x.j < 3; });
}

TEST_CASE("global positions see all and are seen by all") {
  check_mask("mask global(2)", [](const Pair2& x) { return x.p() <= 1 || x.j <= 1; });
  check_mask("mask window(2) || global(1, top_left)",
             [](const Pair2& x) { return x.j == x.p() || x.j + 1 == x.p() || x.i == 0 || x.j == 0; });
}

TEST_CASE("dilated keeps whole steps on both sides") {
  check_mask("mask dilated(3)", [](const Pair2& x) {
    for (Int n = -20; n <= 20; ++n)
      if (x.j + 3 * n == x.p()) return true;
    return false;
  });
}

TEST_CASE("document compares numbers of positions, or of queries and keys") {
  StageValues values("param ids : i32[batch, skv]; mask document(ids)");
  values.tensors["ids"] = {0, 0, 1, 1, 0, 2, 7, 7, 7, 7, 5, 5};
  const auto ids = values.tensors["ids"];
  check_mask(values, {{6, 6}, {2, 6}}, [&](const Pair2& x) {
    return ids[std::size_t(x.b * 6 + x.p())] == ids[std::size_t(x.b * 6 + x.j)];
  });
  StageValues cross("param ids : i32[1, skv]; param own : i32[sq]; mask document(ids, own)");
  cross.tensors["ids"] = {1, 2, 2};
  cross.tensors["own"] = {2, 1};
  check_mask(cross, {{2, 3}}, [](const Pair2& x) { return x.i == 0 ? x.j >= 1 : x.j == 0; });
}

TEST_CASE("packed finds sequences between offsets, empty ones included") {
  for (const std::vector<double>& offsets :
       {std::vector<double>{0, 3, 3, 4, 9}, std::vector<double>{0, 9},
        std::vector<double>{0, 1, 2, 3, 4, 5, 9}, std::vector<double>{0}}) {
    CAPTURE(offsets.size());
    StageValues values("param c : i32[" + std::to_string(offsets.size()) + "]; mask packed(offsets = c)");
    values.tensors["c"] = offsets;
    // Two positions are of one sequence where no offset parts them.
    const auto together = [&](Int a, Int b) {
      for (double offset : offsets)
        if ((double(a) < offset) != (double(b) < offset)) return false;
      return true;
    };
    check_mask(values, {{9, 9}, {4, 9}}, [&](const Pair2& x) { return together(x.p(), x.j); });
  }
}

TEST_CASE("block_mask reads one truth value for a block of pairs") {
  StageValues values("param t : bool[1, heads, 3, 2]; mask block_mask(t, 2, 3)");
  auto& table = values.tensors["t"] = std::vector<double>(8 * 6);
  for (std::size_t k = 0; k < table.size(); ++k) table[k] = double(k * k % 3 == 1);
  check_mask(values, {{6, 6}, {5, 4}},
             [&](const Pair2& x) { return table[std::size_t(x.h * 6 + x.i / 2 * 2 + x.j / 3)] != 0; });
}

TEST_CASE("block_list keeps the blocks whose numbers it holds") {
  StageValues values(
      "param list : i32[batch, 1, 3, 2]; mask block_list(list, query_block = 2, key_block = 3)");
  values.tensors["list"] = {0, -1, 1, 0, -1, -1, 2, 2, 0, 2, 1, 7};
  const std::set<Int> seen[] = {{0}, {0, 1}, {}, {2}, {0, 2}, {1, 7}};
  check_mask(values, {{6, 9}, {5, 4}},
             [&](const Pair2& x) { return seen[x.b * 3 + x.i / 2].contains(x.j / 3); });
}

TEST_CASE("drafts see what came before them and their ancestors, by table or by parents") {
  //        0       4
  //      1   2     5
  //      3
  const std::vector<double> parents{-1, 0, 0, 1, -1, 4};
  const std::set<Int> ancestors[] = {{0}, {0, 1}, {0, 2}, {0, 1, 3}, {4}, {4, 5}};
  const auto wanted = [&](const Pair2& x) {
    const Int before = x.skv - x.sq;
    return x.j < before || ancestors[x.i].contains(x.j - before);
  };
  StageValues path("param parent : i32[sq]; mask tree_path(parent, 2)");
  path.tensors["parent"] = parents;
  check_mask(path, {{6, 6}, {6, 10}}, wanted);
  StageValues longer("param parent : i32[sq]; mask tree_path(parents = parent, depth = 7)");
  longer.tensors["parent"] = parents;
  check_mask(longer, {{6, 7}}, wanted);
  StageValues table("param seen : bool[sq, sq]; mask tree(seen)");
  for (const auto& row : ancestors)
    for (Int j = 0; j < 6; ++j) table.tensors["seen"].push_back(row.contains(j) ? 1 : 0);
  check_mask(table, {{6, 6}, {6, 10}}, wanted);
}

TEST_CASE("a captured tensor chooses the mask of every head") {
  StageValues values("param far : bool[heads]; mask select(far[h], causal, causal && window(2))");
  values.tensors["far"] = {1, 0, 0, 0, 0, 0, 0, 0};
  check_mask(values, {{5, 5}, {3, 7}},
             [](const Pair2& x) { return x.j <= x.p() && (x.h == 0 || x.j >= x.p() - 1); });
}

}  // namespace
}  // namespace attnfuse
