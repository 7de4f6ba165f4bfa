#include "backends/hip/dialect.h"

#include <fmt/format.h>

#include "backends/common/prelude.h"
#include "backends/common/tile_writer.h"
#include "backends/hip/prelude.h"

namespace attnfuse::hip {
namespace {

// A copy staged through registers: chunks of 16 bytes, `count` per thread.
struct Stage {
  int chunk, per_row, chunks, count;
};
Stage stage_of(const TileWriter& writer, const Channel& channel) {
  const Tile& tile = writer.tile(channel.tile);
  const int chunk = writer.dialect().chunk_elements(writer, channel);
  const int chunks = tile.rows * tile.cols / chunk, threads = writer.program().threads();
  return {chunk, tile.cols / chunk, chunks, (chunks + threads - 1) / threads};
}
bool is_staged(const TileWriter& writer, const Channel& channel) {
  return channel.kind == CopyKind::staged && writer.dialect().chunk_elements(writer, channel) > 1;
}

// The row and first element of a chunk.
void open_chunks(TileWriter& writer, const Stage& stage) {
  SourceWriter& out = writer.out();
  const int threads = writer.program().threads();
  writer.open_registers(stage.count, "n");
  out.line(fmt::format("const int e = thread + n * {};", threads));
  if (stage.chunks % threads != 0) out.line(fmt::format("if (e >= {}) continue;", stage.chunks));
  out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", stage.per_row, stage.chunk));
}

}  // namespace

void HipDialect::begin(TileWriter& writer) const {
  const TileProgram& program = writer.program();
  begin_file(writer, prelude_types(),
             std::string(prelude()) + std::string(tanh_prelude()) + matrix_prelude(program.unit));
  SourceWriter& out = writer.out();
  // Without the exact size the compiler assumes 1024 threads and spills; two waves per SIMD keep accumulators
  // in plain registers.
  std::string attributes = fmt::format("amdgpu_flat_work_group_size({0}, {0})", program.threads());
  if (program.threads() / program.target.warp_size <= 4 && program.target.warp_size == 64)
    attributes += ", amdgpu_waves_per_eu(2, 2)";
  out.open(fmt::format("extern \"C\" __global__ __attribute__(({})) void {}(const Arguments args)",
                       attributes, program.name));
  out.line(fmt::format("__shared__ __attribute__((aligned(16))) unsigned char shared_memory[{}];",
                       program.footprint.shared_bytes));
  shared_tiles(writer, "shared_memory");
  out.line("const int thread = int(__builtin_amdgcn_workitem_id_x());");
  out.line(fmt::format("const int lane = thread % {0}, warp = thread / {0};", program.target.warp_size));
  out.line(fmt::format(
      "const int block = int(__builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workgroup_id_y() * {}u);",
      program.target.max_grid_x));
  out.line("if (thread == 0) *has_nonfinite = 0;");
  for (const Channel& channel : program.channels)
    if (is_staged(writer, channel))
      out.line(fmt::format("af_u32x4 {}_stage[{}];", channel.name, stage_of(writer, channel).count));
}

void HipDialect::end(TileWriter& writer) const { writer.out().close(); }

std::string HipDialect::exchange(const std::string& value, int distance) const {
  return fmt::format("af_exchange<{}>({}, lane)", distance, value);
}

void HipDialect::put(TileWriter& writer, const Put& put) const {
  const TileProgram& program = writer.program();
  const Channel& channel = program.channel(put.channel);
  if (!is_staged(writer, channel)) return CDialect::put(writer, put);
  const Tile& to = writer.tile(channel.tile);
  const TensorInfo& source = program.expressions.tensor(channel.source);
  const int extent = source.role == TensorRole::value ? program.info.v_head_dim : program.info.head_dim;
  const std::string first = writer.scalar(put.first_row), limit = writer.scalar(put.row_limit);
  SourceWriter& out = writer.out();
  open_chunks(writer, stage_of(writer, channel));
  std::string inside = fmt::format("{} + row < {}", first, limit);
  if (extent < to.cols) inside += fmt::format(" && d0 < {}", extent);
  out.line(fmt::format("{}_stage[n] = af_u32x4{{0, 0, 0, 0}};", channel.name));
  out.line(
      fmt::format("if ({}) {}_stage[n] = af_load_16(reinterpret_cast<const {}*>(args.{}_ptr) + {} + "
                  "af_i64({} + row) * args.{}_stride_s + d0);",
                  inside, channel.name, type(to.type), source.name, TileWriter::base_of(source.name), first,
                  source.name));
  out.close();
}

void HipDialect::take(TileWriter& writer, const Take& take) const {
  const Channel& channel = writer.program().channel(take.channel);
  SourceWriter& out = writer.out();
  if (is_staged(writer, channel)) {
    const Tile& to = writer.tile(channel.tile);
    const Stage stage = stage_of(writer, channel);
    open_chunks(writer, stage);
    if (!std::get<SharedLayout>(to.layout).column_major) {
      out.line(fmt::format("af_store_16({} + {}, {}_stage[n]);", to.name,
                           TileWriter::shared_index(to, "row", "d0"), channel.name));
    } else {  // 16-bit elements go to a column each
      writer.open_registers(4, "x");
      out.line(fmt::format("const af_u32 pair = {}_stage[n][x];", channel.name));
      for (int half : {0, 1})
        out.line(fmt::format("{}[{}] = {}(pair{});", to.name,
                             TileWriter::shared_index(to, "row", fmt::format("(d0 + 2 * x + {})", half)),
                             type(to.type), half == 0 ? "" : " >> 16"));
      out.close();
    }
    out.close();
  }
  out.line(barrier(Scope::workgroup));
}

// Query operands from shared memory into registers, once.
void HipDialect::move(TileWriter& writer, const Move& move) const {
  const Tile &to = writer.tile(move.to), &from = writer.tile(move.from);
  if (to.space != Space::registers || to.type == DType::f32) return writer.move_elements(move);
  const MatrixUnit& unit = writer.program().unit;
  const int blocks = writer.program().schedule.rows_per_warp / unit.n, steps = to.cols / unit.k,
            pairs = unit.b.register_count() / 2;
  SourceWriter& out = writer.out();
  writer.open_registers(blocks, "m");
  writer.open_registers(steps, "k");
  const std::string row = fmt::format("warp * {} + m * {} + {}", writer.program().schedule.rows_per_warp,
                                      unit.n, digit_sum(unit.b.lanes, TileAxis::row, "lane"));
  const std::string col = fmt::format("k * {} + {}", unit.k, digit_sum(unit.b.lanes, TileAxis::col, "lane"));
  out.line(fmt::format("const af_operand q = af_load_operand({} + {});", from.name,
                       TileWriter::shared_index(from, row, col)));
  writer.open_registers(pairs, "x");
  out.line(fmt::format("{}[{} * (k + {} * m) + x] = q.x[x];", to.name, pairs, steps));
  out.close();
  out.close();
  out.close();
}

// The m side is the shared tile (keys, or output dims), the n side the queries: from shared memory, from
// registers, or probabilities straight from the first product's accumulator.
void HipDialect::mma(TileWriter& writer, const Mma& mma) const {
  const MatrixUnit& unit = writer.program().unit;
  if (unit.is_fma()) return writer.multiply_elements(mma);
  const Tile &acc = writer.tile(mma.accumulator), &a = writer.tile(mma.a), &b = writer.tile(mma.b);
  const int rows_per_warp = writer.program().schedule.rows_per_warp;
  const int blocks = rows_per_warp / unit.n, columns = acc.cols / unit.m, steps = a.cols / unit.k;
  const int pairs = unit.b.register_count() / 2, results = unit.accumulator.register_count();
  const bool half_owned = mma.b_rows_contract && results < unit.b.register_count();
  SourceWriter& out = writer.out();
  writer.open_registers(steps, "k");
  out.line(fmt::format("af_operand q[{}];", blocks));
  writer.open_registers(blocks, "m");
  const std::string k_col =
      fmt::format("k * {} + {}", unit.k, digit_sum(unit.b.lanes, TileAxis::col, "lane"));
  if (a.space == Space::shared) {
    const std::string row = fmt::format("warp * {} + m * {} + {}", rows_per_warp, unit.n,
                                        digit_sum(unit.b.lanes, TileAxis::row, "lane"));
    out.line(
        fmt::format("q[m] = af_load_operand({} + {});", a.name, TileWriter::shared_index(a, row, k_col)));
  } else if (half_owned) {
    out.line(fmt::format("q[m] = af_both_halves({} + {} * (k + {} * m), lane);", a.name, results / 2, steps));
  } else {
    writer.open_registers(pairs, "x");
    out.line(fmt::format("q[m].x[x] = {}[{} * (k + {} * m) + x];", a.name, pairs, steps));
    out.close();
  }
  out.close();
  writer.open_registers(columns, "n");
  const std::string m_row =
      fmt::format("n * {} + {}", unit.m, digit_sum(unit.a.lanes, TileAxis::row, "lane"));
  const std::string m_col =
      fmt::format("k * {} + {}", unit.k, digit_sum(unit.a.lanes, TileAxis::col, "lane"));
  const std::string at = mma.b_rows_contract ? TileWriter::shared_index(b, m_col, m_row)
                                             : TileWriter::shared_index(b, m_row, m_col);
  out.line(fmt::format("const af_operand rows = af_load_operand({} + {});", b.name, at));
  writer.open_registers(blocks, "m");
  out.line(fmt::format("af_mma_{}({} + {} * (n + {} * m), rows, q[m]);", name(b.type), acc.name, results,
                       columns));
  out.close();
  out.close();
  out.close();
}

}  // namespace attnfuse::hip
