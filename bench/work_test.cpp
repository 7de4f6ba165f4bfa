#include "bench/work.h"

#include <doctest/doctest.h>

#include "frontend/parser.h"

namespace attnfuse::bench {
namespace {

Graph masked(const std::string& mask) {
  const std::string text =
      "attention t { heads 4 kv_heads 2 head_dim 16 v_head_dim 32 dtype f16 " + mask + " }";
  auto graph = parse_one(text);
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), text));
  return std::move(graph).value();
}

// By looking at every pair.
template <class Allowed>
std::int64_t counted(const Sizes& sizes, Allowed allowed) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < sizes.sq; ++i)
    for (std::int64_t j = 0; j < sizes.skv; ++j) count += allowed(i, j);
  return count;
}

}  // namespace

TEST_CASE("allowed pairs are counted exactly") {
  for (const Sizes& sizes : {Sizes{1, 50, 50}, Sizes{1, 33, 70}, Sizes{1, 70, 33}, Sizes{1, 1, 1}}) {
    const std::int64_t shift = sizes.skv - sizes.sq;
    CHECK(allowed_pairs(masked(""), sizes) == sizes.sq * sizes.skv);
    CHECK(allowed_pairs(masked("mask causal"), sizes) ==
          counted(sizes, [&](auto i, auto j) { return i + shift >= j; }));
    CHECK(allowed_pairs(masked("mask window(9)"), sizes) ==
          counted(sizes, [&](auto i, auto j) { return i + shift >= j && i + shift - j < 9; }));
    CHECK(allowed_pairs(masked("mask i % 3 == 0"), sizes) ==
          counted(sizes, [](auto i, auto) { return i % 3 == 0; }));
  }
  CHECK(allowed_pairs(masked("mask causal"), {1, 5, 0}) == 0);
}

TEST_CASE("heads may differ in the pairs they allow") {
  const Graph graph = masked("mask h > 0 && i >= j");
  CHECK(allowed_pairs(graph, {1, 10, 10}, 0) == 0);
  CHECK(allowed_pairs(graph, {1, 10, 10}, 1) == 55);
  CHECK(matrix_flops(graph, {2, 10, 10}) == 2.0 * 2 * 3 * 55 * (16 + 32));
  CHECK(matrix_flops(masked("mask i >= j"), {2, 10, 10}) == 2.0 * 2 * 4 * 55 * (16 + 32));
  CHECK(matrix_flops(masked("mask i >= j output differential(0.5)"), {2, 10, 10}) ==
        2.0 * 2 * 2 * 4 * 55 * (16 + 32));
}

TEST_CASE("a causal map is full below the diagonal, partial on it, empty above") {
  const TileMap map = tile_map(masked("mask causal"), {1, 100, 100}, 32, 32);
  CHECK(map.rows == 4);
  CHECK(map.cols == 4);
  for (std::int64_t row = 0; row < 4; ++row)
    for (std::int64_t col = 0; col < 4; ++col)
      CHECK(map.tiles[std::size_t(row * 4 + col)] == (col < row    ? TileClass::full
                                                      : col == row ? TileClass::partial
                                                                   : TileClass::empty));
  CHECK(map.count(TileClass::partial) == 4);
}

TEST_CASE("the picture draws every tile") {
  const std::string text = svg(tile_map(masked("mask causal"), {1, 100, 100}, 32, 32), "title");
  std::size_t rectangles = 0;
  for (std::size_t at = text.find("<rect"); at != std::string::npos; at = text.find("<rect", at + 1))
    ++rectangles;
  CHECK(rectangles == 16);
  CHECK(text.find("<text x=\"4\" y=\"14\">title: white empty") != std::string::npos);
}

}  // namespace attnfuse::bench
