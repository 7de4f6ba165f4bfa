#include "passes/pipelined_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {
namespace {

int round_up(int value, int step) { return (value + step - 1) / step * step; }

FragmentLayout accumulator_layout(const MatrixUnit& unit, int cols) {
  return repeated(unit.accumulator, cols / unit.n, unit.n, 1, 0, 1, 0);
}

}  // namespace

int group_rows(const Target& target) { return target.pipeline->product.m; }

ForwardTiles plan_pipelined_tiles(const ProgramInfo& info, const Target& target, const Schedule& schedule) {
  ForwardTiles plan;
  const MatrixUnit& unit = target.pipeline->product;
  const int rows = group_rows(target), block_k = schedule.block_k, block_q = schedule.block_q;
  const int head = round_up(info.head_dim, unit.k), v_head = info.v_head_dim;
  const int reserved = std::max(head, v_head);
  const TileDim group{Axis::i, "group_begin"}, query{Axis::i, "q_begin"}, key{Axis::j, "k_begin"},
      dim{Axis::d, ""};
  const auto add = [&](Tile tile) {
    plan.tiles.push_back(std::move(tile));
    return TileId{int(plan.tiles.size()) - 1};
  };
  const auto shared = [&](std::string name, int tile_rows, int cols, int reserve, const TileDim& row) {
    return add({std::move(name), info.dtype, Space::shared, tile_rows, cols, row, dim,
                SharedLayout{reserve, false, true}});
  };
  const auto accumulator = [&](int cols) { return accumulator_layout(unit, cols); };
  const auto registers = [&](std::string name, DType type, int cols, const TileDim& col,
                             FragmentLayout layout) {
    return add({std::move(name), type, Space::registers, rows, cols, group, col, std::move(layout)});
  };
  plan.query = shared("q_shared", block_q, head, reserved, query);
  plan.key = shared("k_shared", block_k, head, head, key);
  plan.value = shared("v_shared", block_k, v_head, v_head, key);
  plan.scores_shared = shared("o_shared", block_q, v_head, reserved, query);
  plan.tiles.back().memory_of = plan.query;
  plan.scores = plan.scores_rows = registers("s", DType::f32, block_k, key, accumulator(block_k));
  plan.output = registers("o", DType::f32, v_head, dim, accumulator(v_head));
  plan.weights = registers("p", info.dtype, block_k, key, accumulator(block_k));
  if (schedule.trims) {
    plan.scores_half = registers("s_half", DType::f32, block_k / 2, key, accumulator(block_k / 2));
    plan.weights_half = registers("p_half", info.dtype, block_k / 2, key, accumulator(block_k / 2));
  }
  const FragmentLayout per_row = vector_along(accumulator(block_k), TileAxis::row);
  const auto vector = [&](const char* name) { return registers(name, DType::f32, 1, key, per_row); };
  plan.row_max = vector("row_max");
  plan.row_max_before = vector("row_max_before");
  plan.row_max_safe = vector("row_max_safe");
  plan.row_sum = vector("row_sum");
  plan.row_factor = vector("row_factor");
  return plan;
}

bool takes_pages(const Storage& storage, int block_k) {
  constexpr int kRepeats = 8;  // rows
  if (!storage.page_size) return true;
  const int rows = *storage.page_size;
  return rows % kRepeats == 0 && (rows % block_k == 0 || block_k % rows == 0);
}

std::string pipeline_refusal(const Graph& graph, const Target& target) {
  const ProgramInfo& info = graph.info();
  if (info.score_heads > 1) return "it has room for the scores and the output of one score head, not of two";
  const int head = std::max(info.head_dim, info.v_head_dim);
  const auto refuses = [&](const PipelineRow& row) {
    return head < row.min_head_dim || head > row.max_head_dim || !takes_pages(info.storage, row.block_k);
  };
  if (info.storage.page_size && std::ranges::all_of(target.pipelines, refuses))
    return fmt::format("no tile of keys is made of pages of {}, or divides one", *info.storage.page_size);
  const FragmentLayout output = accumulator_layout(target.pipeline->product, graph.info().v_head_dim);
  for (NodeId id : cone(graph, {graph.output("o")})) {
    const auto* partner = as<Partner>(graph.node(id));
    if (partner && as<Attend>(graph.node(graph.operand(id, 0))) && paired_registers(output, *partner).empty())
      return fmt::format("the output pairs {} elements, which several threads hold", partner->count);
  }
  return {};
}

Footprint pipelined_footprint(const ProgramInfo& info, const Target& target, const Schedule& schedule) {
  const ForwardTiles plan = plan_pipelined_tiles(info, target, schedule);
  Footprint result;
  result.threads = schedule.warps * target.warp_size;
  result.registers = schedule.consumer_registers;
  result.shared_bytes =
      schedule.query_slots * slot_bytes(plan.at(plan.query)) +
      schedule.kv_slots * (slot_bytes(plan.at(plan.key)) + slot_bytes(plan.at(plan.value))) + kFlagBytes +
      kBookkeepingBytes;
  return result;
}

}  // namespace attnfuse
