// lower_data_bounds: a workgroup takes a query tile, folds what depends on its rows together, and gives each
// thread key tiles of its own.
#include <algorithm>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/data_bounds.h"
#include "passes/expressions.h"
#include "passes/key_bounds.h"
#include "passes/parameters.h"

namespace attnfuse {
namespace {

constexpr int kThreads = 256;

NodeId mask_of(const Graph& graph) { return graph.operand(find<Normalize>(graph), 1); }

class BoundsLowering {
 public:
  BoundsLowering(const Graph& graph, const Target& target, const Schedule& attention) {
    program_.name = "bounds_" + graph.info().name;
    program_.about = "which keys a mask lets query tiles see, ahead of attention";
    program_.info = graph.info();
    program_.target = target;
    program_.expressions = graph;
    program_.unit = target.units.back();
    Schedule& schedule = program_.schedule;
    schedule.name = "bounds";
    schedule.source = "derived";
    schedule.block_q = attention.block_q;
    schedule.block_k = attention.block_k;
    schedule.rows_per_warp = 0;
    schedule.warps = std::min(kThreads, target.max_threads) / target.warp_size;
    by_head_ = data_bounds_differ_by_head(graph);
    program_.rows = Rows{Size::sq, by_head_ ? graph.info().heads : 1, 1};
    output_ = data_bounds_name(graph);
    program_.outputs = {{output_, DType::i32, false}};
  }

  TileProgram run() {
    mask_ = mask_of(g());
    Folder folder(g());
    std::vector<TileFold> folds;
    TileRanges plain(folder), folded(folder, &folds);
    const KeyBounds bounds = key_bounds(plain, mask_);
    const TileRanges::Truth truth = folded.truth(mask_);

    add_params();
    const int threads = program_.threads();
    program_.tiles.push_back({"folded",
                              DType::i32,
                              Space::shared,
                              1,
                              threads,
                              {Axis::i, ""},
                              {Axis::j, ""},
                              SharedLayout{threads, false, false}});
    program_.footprint = {shared_bytes(program_.tiles[0]) + kFlagBytes, threads, kRegisters};
    if (program_.target.pipeline) {
      add(Chain{false});
      add(Chain{true});
    }
    if (by_head_) {
      const int group = program_.info.heads / program_.info.kv_heads;
      add(Let{"h", scalar("head_begin")});
      add(Let{"g", op(ScalarOp::idiv, {scalar("head_begin"), i32(group)})});
    }
    add(Let{"q_begin", scalar("row_begin")});
    add(Let{"q_end", end_of("q_begin", program_.schedule.block_q, Size::sq)});
    add_fold(program_.body, folds, Axis::i, "i", "q", TileId{0});
    add_tile_range(bounds);
    add_tiles(folds, truth);
    add_store();
    return std::move(program_);
  }

 private:
  static constexpr int kRegisters = 64;

  Graph& g() { return program_.expressions; }
  void add(Statement statement) { program_.body.push_back(std::move(statement)); }
  NodeId i32(double value) { return g().constant(value, ValueType::i32); }
  NodeId scalar(const std::string& name) { return g().variable(name, ValueType::i32); }
  NodeId size(Size size) { return g().add(SizeOf{size}); }
  NodeId op(ScalarOp op, std::initializer_list<NodeId> operands) { return g().apply(op, operands); }
  NodeId end_of(const std::string& begin, int count, Size limit) {
    return op(ScalarOp::imin, {op(ScalarOp::iadd, {scalar(begin), i32(count)}), size(limit)});
  }

  void add_params() {
    add_captured_fields(program_, std::vector{mask_});
    add_tensor_fields(program_, output_, {"0", "1", "2", "3"});
    add_size_fields(program_);
  }

  // The folds along one axis of the tile `tile`, whose bounds are scalars.
  void add_fold(Body& body, const std::vector<TileFold>& folds, Axis axis, const std::string& variable,
                const std::string& tile, TileId shared) {
    Fold fold{variable, scalar(tile + "_begin"), scalar(tile + "_end"), {}, {}, shared};
    for (const TileFold& wanted : folds)
      if (wanted.axis == axis) fold.results.push_back({wanted.name, wanted.op, wanted.value});
    if (!fold.results.empty()) body.emplace_back(std::move(fold));
  }

  // The tiles that hold keys which the mask allows whatever the data.
  void add_tile_range(const KeyBounds& bounds) {
    NodeId first = i32(0), end = size(Size::skv);
    if (bounds.first.valid()) first = op(ScalarOp::imax, {bounds.first, first});
    if (bounds.end.valid()) end = op(ScalarOp::imin, {bounds.end, end});
    const NodeId block = i32(program_.schedule.block_k);
    const NodeId last = op(ScalarOp::iadd, {end, i32(program_.schedule.block_k - 1)});
    add(Let{"tile_begin", op(ScalarOp::idiv, {first, block})});
    add(Let{"tile_end", op(ScalarOp::idiv, {last, block})});
  }

  void add_tiles(const std::vector<TileFold>& folds, const TileRanges::Truth& truth) {
    Fold tiles{"tile", scalar("tile_begin"), scalar("tile_end"), {}, {}, TileId{0}};
    const NodeId tile = scalar("tile"), none = i32(INT32_MAX), before = i32(-1);
    tiles.each.emplace_back(Let{"k_begin", op(ScalarOp::imul, {tile, i32(program_.schedule.block_k)})});
    tiles.each.emplace_back(Let{"k_end", end_of("k_begin", program_.schedule.block_k, Size::skv)});
    add_fold(tiles.each, folds, Axis::j, "j", "k", {});
    tiles.each.emplace_back(Let{"may", truth.may});
    tiles.each.emplace_back(Let{"must", truth.must});
    const NodeId may = g().variable("may", ValueType::boolean);
    const NodeId must = g().variable("must", ValueType::boolean);
    tiles.results = {
        {"seen_first", ScalarOp::imin, op(ScalarOp::iselect, {may, tile, none})},
        {"seen_last", ScalarOp::imax, op(ScalarOp::iselect, {may, tile, before})},
        {"open_first", ScalarOp::imin, op(ScalarOp::iselect, {must, tile, none})},
        {"open_last", ScalarOp::imax, op(ScalarOp::iselect, {must, tile, before})},
        {"open_count", ScalarOp::iadd, op(ScalarOp::iselect, {must, i32(1), i32(0)})},
    };
    add(std::move(tiles));
  }

  // Tiles that all rows see count if nothing lies between them.
  void add_store() {
    const NodeId zero = i32(0);
    const auto key = [&](const char* tile, int step) {
      const NodeId next = op(ScalarOp::iadd, {scalar(tile), i32(step)});
      return op(ScalarOp::imin,
                {op(ScalarOp::imul, {next, i32(program_.schedule.block_k)}), size(Size::skv)});
    };
    const auto bound = [&](const char* name, const char* condition, NodeId value, NodeId otherwise) {
      const NodeId holds = g().variable(condition, ValueType::boolean);
      add(Let{name, op(ScalarOp::iselect, {holds, value, otherwise})});
    };
    add(Let{"sees", op(ScalarOp::ige, {scalar("seen_last"), zero})});
    const NodeId extent =
        op(ScalarOp::isub, {op(ScalarOp::iadd, {scalar("open_last"), i32(1)}), scalar("open_first")});
    add(Let{"is_open", op(ScalarOp::logical_and, {op(ScalarOp::igt, {scalar("open_count"), zero}),
                                                  op(ScalarOp::ieq, {extent, scalar("open_count")})})});
    bound("seen_begin", "sees", key("seen_first", 0), size(Size::skv));
    bound("seen_end", "sees", key("seen_last", 1), zero);
    bound("open_begin", "is_open", key("open_first", 0), zero);
    bound("open_end", "is_open", key("open_last", 1), zero);
    StoreScalars store{output_, {}, {}};
    store.at = {g().index(Axis::b), by_head_ ? scalar("head_begin") : zero,
                op(ScalarOp::idiv, {scalar("row_begin"), i32(program_.schedule.block_q)})};
    for (std::string_view name : kDataBounds) store.values.push_back(scalar(std::string(name)));
    add(std::move(store));
  }

  TileProgram program_;
  std::string output_;
  NodeId mask_;
  bool by_head_ = false;
};

}  // namespace

bool has_data_bounds(const Graph& graph) {
  if (!graph.info().storage.is_plain()) return false;  // query tiles are numbered through the whole batch
  Graph scratch = graph;
  Folder folder(scratch);
  std::vector<TileFold> folds;
  TileRanges(folder, &folds).truth(mask_of(graph));
  return !folds.empty();
}

bool data_bounds_differ_by_head(const Graph& graph) {
  const Axes axes = graph.node(mask_of(graph)).axes;
  return axes.has(Axis::h) || axes.has(Axis::g);
}

TensorInfo data_bounds_tensor(const Graph& graph, const std::string& name) {
  const Extent heads = data_bounds_differ_by_head(graph) ? Extent{Size::heads} : Extent{1};
  TensorInfo table;
  table.name = name;
  table.dtype = DType::i32;
  table.role = TensorRole::captured;
  table.shape = {Extent{Size::batch}, heads, Extent{Size::sq}, Extent{std::int64_t(kDataBounds.size())}};
  return table;
}

std::string data_bounds_name(const Graph& graph) { return unused_name(graph, "key_bounds"); }

Result<TileProgram> compile_data_bounds(const Graph& graph, const Target& target, const Schedule& attention) {
  const Result<Graph> optimized = run_graph_passes(graph);
  if (!optimized) return optimized.errors();
  TileProgram program = BoundsLowering(*optimized, target, attention).run();
  if (const Diagnostics mistakes = verify(program); !mistakes.empty())
    ATTNFUSE_CHECK(false, "lowering broke a rule: " + render(mistakes));
  return program;
}

}  // namespace attnfuse
