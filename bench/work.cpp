#include "bench/work.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse::bench {
namespace {

NodeId mask_of(const Graph& graph) {
  const NodeId normalize = find<Normalize>(graph);
  ATTNFUSE_CHECK(normalize.valid(), "a program without normalize");
  return graph.operand(normalize, 1);
}

// Half-open rectangle of the score matrix.
struct Rectangle {
  std::int64_t i_begin, i_end, j_begin, j_end;
  bool is_empty() const { return i_begin >= i_end || j_begin >= j_end; }
  std::int64_t area() const { return (i_end - i_begin) * (j_end - j_begin); }
};

class MaskAnalysis {
 public:
  MaskAnalysis(const Graph& graph, const Sizes& sizes, std::int64_t head)
      : graph_(graph), mask_(mask_of(graph)) {
    const ProgramInfo& info = graph.info();
    const auto size = [&](Size which, std::int64_t value) {
      context_.sizes[std::size_t(which)] = Interval::point(double(value));
    };
    size(Size::batch, sizes.batch);
    size(Size::heads, info.heads);
    size(Size::kv_heads, info.kv_heads);
    size(Size::sq, sizes.sq);
    size(Size::skv, sizes.skv);
    size(Size::head_dim, info.head_dim);
    size(Size::v_head_dim, info.v_head_dim);
    set(Axis::b, 0, std::max<std::int64_t>(sizes.batch - 1, 0));
    set(Axis::h, head, head);
    set(Axis::g, head / (info.heads / info.kv_heads), head / (info.heads / info.kv_heads));
    set(Axis::d, 0, info.head_dim - 1);
  }

  TileClass classify(const Rectangle& tile) {
    if (tile.is_empty()) return TileClass::empty;
    set(Axis::i, tile.i_begin, tile.i_end - 1);
    set(Axis::j, tile.j_begin, tile.j_end - 1);
    const Interval range = interval_of(graph_, mask_, context_);
    if (range.hi == 0) return TileClass::empty;
    return range.lo == 1 ? TileClass::full : TileClass::partial;
  }

  // Quarters what is neither empty nor full.
  std::int64_t count(const Rectangle& area) {
    switch (classify(area)) {
      case TileClass::empty:
        return 0;
      case TileClass::full:
        return area.area();
      case TileClass::partial:
        break;
    }
    if (area.area() == 1) return 1;
    const std::int64_t i = (area.i_begin + area.i_end + 1) / 2, j = (area.j_begin + area.j_end + 1) / 2;
    return count({area.i_begin, i, area.j_begin, j}) + count({area.i_begin, i, j, area.j_end}) +
           count({i, area.i_end, area.j_begin, j}) + count({i, area.i_end, j, area.j_end});
  }

 private:
  void set(Axis axis, std::int64_t lo, std::int64_t hi) {
    context_.index[std::size_t(axis)] = {double(lo), double(hi)};
  }

  const Graph& graph_;
  NodeId mask_;
  IntervalContext context_;
};

}  // namespace

std::int64_t TileMap::count(TileClass which) const { return std::count(tiles.begin(), tiles.end(), which); }

TileMap tile_map(const Graph& graph, const Sizes& sizes, std::int64_t block_q, std::int64_t block_k,
                 std::int64_t head) {
  MaskAnalysis analysis(graph, sizes, head);
  TileMap map{(sizes.sq + block_q - 1) / block_q, (sizes.skv + block_k - 1) / block_k, {}};
  for (std::int64_t row = 0; row < map.rows; ++row)
    for (std::int64_t col = 0; col < map.cols; ++col)
      map.tiles.push_back(analysis.classify({row * block_q, std::min((row + 1) * block_q, sizes.sq),
                                             col * block_k, std::min((col + 1) * block_k, sizes.skv)}));
  return map;
}

std::int64_t allowed_pairs(const Graph& graph, const Sizes& sizes, std::int64_t head) {
  if (sizes.sq == 0 || sizes.skv == 0) return 0;
  return MaskAnalysis(graph, sizes, head).count({0, sizes.sq, 0, sizes.skv});
}

double matrix_flops(const Graph& graph, const Sizes& sizes) {
  const ProgramInfo& info = graph.info();
  const bool differs_by_head =
      graph.node(mask_of(graph)).axes.has(Axis::h) || graph.node(mask_of(graph)).axes.has(Axis::g);
  double pairs = 0;
  for (std::int64_t head = 0; head < info.heads; ++head) {
    if (head > 0 && !differs_by_head) {
      pairs *= info.heads;
      break;
    }
    pairs += double(allowed_pairs(graph, sizes, head));
  }
  return 2.0 * info.score_heads * double(sizes.batch) * pairs * double(info.head_dim + info.v_head_dim);
}

std::string svg(const TileMap& map, const std::string& title) {
  constexpr std::int64_t kMostTiles = 256;
  constexpr int kSide = 12;
  constexpr const char* kColours[] = {"#ffffff", "#4477aa", "#eebb44"};  // by TileClass
  const std::int64_t rows = std::min(map.rows, kMostTiles), cols = std::min(map.cols, kMostTiles);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<text x=\"4\" y=\"14\">{}: white empty, blue full, yellow partial</text>\n",
      std::max<std::int64_t>(cols * kSide + 8, 480), rows * kSide + 30, title);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t col = 0; col < cols; ++col)
      text +=
          fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#999\"/>\n",
                      4 + col * kSide, 22 + row * kSide, kSide, kSide,
                      kColours[std::size_t(map.tiles[std::size_t(row * map.cols + col)])]);
  return text + "</svg>\n";
}

}  // namespace attnfuse::bench
