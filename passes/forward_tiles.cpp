#include "passes/forward_tiles.h"

#include <algorithm>

namespace attnfuse {
namespace {

// Lanes that share one row of scores where threads own rows directly: two exchange steps, and they stay
// neighbours whatever the width of the machine's lane exchange.
constexpr int kLanesPerRow = 4;
// Padding of shared rows, in bytes: rows stay 16-byte aligned and start in different banks.
constexpr int kRowPaddingBytes = 16;
// The widest access of every machine.
constexpr int kChunkBytes = 16;

int round_up(int value, int step) { return (value + step - 1) / step * step; }

// The accumulator of one product over all rows of the workgroup.
FragmentLayout accumulator_layout(const MatrixUnit& unit, const Schedule& schedule, int cols) {
  const FragmentLayout fragment = unit.transposed ? transposed(unit.accumulator) : unit.accumulator;
  const int rows = unit.transposed ? unit.n : unit.m;
  const int step = unit.transposed ? unit.m : unit.n;
  return repeated(fragment, cols / step, step, schedule.rows_per_warp / rows, rows, schedule.warps,
                  schedule.rows_per_warp);
}

FragmentLayout query_operand_layout(const MatrixUnit& unit, const Schedule& schedule, int cols) {
  const int rows = unit.transposed ? unit.n : unit.m;
  return repeated(unit.transposed ? unit.b : unit.a, cols / unit.k, unit.k, schedule.rows_per_warp / rows,
                  rows, schedule.warps, schedule.rows_per_warp);
}

class Planner {
 public:
  Planner(const ProgramInfo& info, const Target& target, const Schedule& schedule)
      : info_(info), target_(target), schedule_(schedule), unit_(matrix_unit(target, info.dtype)) {}

  ForwardTiles plan() {
    const int key_step = unit_.transposed ? unit_.m : unit_.n;
    const int head = round_up(info_.head_dim, unit_.k);
    const int columns = schedule_.value_columns > 0 ? schedule_.value_columns : info_.v_head_dim;
    const int v_head = round_up(columns, std::max(key_step, unit_.is_fma() ? kLanesPerRow : 1));
    const int block_q = schedule_.block_q, block_k = schedule_.block_k;
    const TileDim query{Axis::i, "q_begin"}, key{Axis::j, "k_begin"}, dim{Axis::d, ""};
    const TileDim value_dim{Axis::d, columns < info_.v_head_dim ? "value_begin" : ""};

    add_query(plan_, "q", head);
    if (has_second()) add_query(plan_.second, "q2", head);
    plan_.key = shared("k_shared", info_.dtype, block_k, head, key, dim);
    // Transposed units read values as rows of keys, so that four to eight keys are one access.
    plan_.value = shared("v_shared", info_.dtype, block_k, v_head, key, value_dim, unit_.transposed);
    const FragmentLayout rows = rows_of_threads(target_, schedule_, block_k);
    if (unit_.opaque) {
      plan_.scores = opaque("s_matrix", DType::f32, block_q, block_k, query, key);
      plan_.output = opaque("o", DType::f32, block_q, v_head, query, value_dim);
      if (has_second()) plan_.second.output = opaque("o2", DType::f32, block_q, v_head, query, value_dim);
      plan_.scores_shared = shared("s_shared", DType::f32, block_q, block_k, query, key);
      plan_.scores_rows = registers("s", DType::f32, block_q, block_k, query, key, rows);
      plan_.row_factor_shared = shared("row_factor_shared", DType::f32, block_q, 1, query, key);
    } else {
      const bool fma = unit_.is_fma();
      plan_.scores = registers("s", DType::f32, block_q, block_k, query, key,
                               fma ? rows : accumulator_layout(unit_, schedule_, block_k));
      const FragmentLayout output =
          fma ? rows_of_threads(target_, schedule_, v_head) : accumulator_layout(unit_, schedule_, v_head);
      plan_.output = registers("o", DType::f32, block_q, v_head, query, value_dim, output);
      if (has_second())
        plan_.second.output = registers("o2", DType::f32, block_q, v_head, query, value_dim, output);
      plan_.scores_rows = plan_.scores;
    }
    const FragmentLayout layout = std::get<FragmentLayout>(plan_.at(plan_.scores_rows).layout);
    if (unit_.accumulator_is_operand)
      plan_.weights = registers("p", info_.dtype, block_q, block_k, query, key, layout);
    else
      plan_.weights_shared = shared("p_shared", info_.dtype, block_q, block_k, query, key);

    const FragmentLayout per_row = vector_along(layout, TileAxis::row);
    const auto vector = [&](const char* name) {
      return registers(name, DType::f32, block_q, 1, query, key, per_row);
    };
    plan_.row_max = vector("row_max");
    plan_.row_max_before = vector("row_max_before");
    plan_.row_max_safe = vector("row_max_safe");
    plan_.row_sum = vector("row_sum");
    plan_.row_factor = vector("row_factor");
    if (has_second()) {
      plan_.second.row_max = vector("row_max_2");
      plan_.second.row_sum = vector("row_sum_2");
    }
    return std::move(plan_);
  }

 private:
  bool has_second() const { return info_.score_heads == 2; }

  // Query operands that lie in whole chunks come straight from global memory; others are spread by way of
  // shared.
  void add_query(HeadTiles& tiles, const std::string& name, int head) {
    const TileDim query{Axis::i, "q_begin"}, dim{Axis::d, ""};
    const int block_q = schedule_.block_q;
    const FragmentLayout operand =
        schedule_.query_in_registers ? query_operand_layout(unit_, schedule_, head) : FragmentLayout{};
    const bool whole_chunks = !operand.registers.empty() && operand.registers[0].axis == TileAxis::col &&
                              operand.registers[0].stride == 1 &&
                              operand.registers[0].extent * size_in_bytes(info_.dtype) >= kChunkBytes;
    if (schedule_.query_in_registers)
      (whole_chunks ? tiles.query : tiles.query_operand) =
          registers(name + "_operand", info_.dtype, block_q, head, query, dim, operand);
    if (!whole_chunks) tiles.query = shared(name + "_shared", info_.dtype, block_q, head, query, dim);
  }

  TileId add(Tile tile) {
    plan_.tiles.push_back(std::move(tile));
    return {int(plan_.tiles.size()) - 1};
  }
  TileId shared(std::string name, DType type, int rows, int cols, TileDim row, TileDim col,
                bool column_major = false) {
    const int padding = cols == 1 ? 0 : kRowPaddingBytes / size_in_bytes(type);
    const SharedLayout layout{(column_major ? rows : cols) + padding, column_major};
    return add({std::move(name), type, Space::shared, rows, cols, std::move(row), std::move(col), layout});
  }
  TileId registers(std::string name, DType type, int rows, int cols, TileDim row, TileDim col,
                   FragmentLayout layout) {
    return add({std::move(name), type, Space::registers, rows, cols, std::move(row), std::move(col),
                std::move(layout)});
  }
  TileId opaque(std::string name, DType type, int rows, int cols, TileDim row, TileDim col) {
    return add({std::move(name), type, Space::registers, rows, cols, std::move(row), std::move(col),
                OpaqueLayout{schedule_.warps}});
  }

  const ProgramInfo& info_;
  const Target& target_;
  const Schedule& schedule_;
  const MatrixUnit& unit_;
  ForwardTiles plan_;
};

int register_words(const Tile& tile, int threads) {
  const int elements = std::holds_alternative<FragmentLayout>(tile.layout)
                           ? std::get<FragmentLayout>(tile.layout).register_count()
                           : (tile.rows * tile.cols + threads - 1) / threads;
  return (elements * size_in_bytes(tile.type) + 3) / 4;
}

}  // namespace

FragmentLayout rows_of_threads(const Target& target, const Schedule& schedule, int cols) {
  const int row_lanes = std::max(1, target.warp_size / kLanesPerRow);
  const int col_lanes = target.warp_size / row_lanes;
  FragmentLayout lanes;
  lanes.lanes = {{col_lanes, TileAxis::col, 1}, {row_lanes, TileAxis::row, 1}};
  return repeated(lanes, cols / col_lanes, col_lanes, schedule.rows_per_warp / row_lanes, row_lanes,
                  schedule.warps, schedule.rows_per_warp);
}

ForwardTiles plan_forward_tiles(const ProgramInfo& info, const Target& target, const Schedule& schedule) {
  return Planner(info, target, schedule).plan();
}

Footprint footprint_of(const std::vector<Tile>& tiles, int threads) {
  constexpr int kAddressing = 40;  // pointers, bounds, loop counters, operands in flight
  Footprint result;
  result.threads = threads;
  result.registers = kAddressing;
  // Probabilities take over the registers of the scores they are packed from.
  const auto takes_over = [&](const Tile& tile) {
    return std::ranges::any_of(tiles, [&](const Tile& other) {
      return other.space == Space::registers && other.type == DType::f32 && tile.type != DType::f32 &&
             other.layout == tile.layout && other.cols == tile.cols;
    });
  };
  for (const Tile& tile : tiles) {
    if (tile.space == Space::shared)
      result.shared_bytes += shared_bytes(tile);
    else if (!takes_over(tile))
      result.registers += register_words(tile, threads);
  }
  result.shared_bytes += kFlagBytes;
  return result;
}

}  // namespace attnfuse
