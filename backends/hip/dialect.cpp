#include "backends/hip/dialect.h"

#include <fmt/format.h>

#include "backends/common/prelude.h"
#include "backends/common/tile_writer.h"
#include "backends/hip/prelude.h"

namespace attnfuse::hip {
namespace {

// A copy staged through registers, in items of `rows` neighbouring chunks of 16 bytes. Tiles by columns take
// up to four rows, so that one thread stores four neighbouring elements of a column.
struct Stage {
  int chunk, per_row, rows, items, per_thread;
};
Stage stage_of(const TileWriter& writer, const Channel& channel) {
  const Tile& tile = writer.tile(channel.tile);
  const int chunk = writer.dialect().chunk_elements(writer, channel);
  const int chunks = tile.rows * tile.cols / chunk, threads = writer.program().threads();
  int rows = 1;
  if (std::get<SharedLayout>(tile.layout).column_major)
    while (rows < 4 && tile.rows % (2 * rows) == 0 && chunks / (2 * rows) >= threads) rows *= 2;
  return {chunk, tile.cols / chunk, rows, chunks / rows, (chunks / rows + threads - 1) / threads};
}
int stage_registers(const Stage& stage) { return stage.per_thread * stage.rows; }
bool is_staged(const TileWriter& writer, const Channel& channel) {
  return writer.tile(channel.tile).space == Space::shared && channel.kind == CopyKind::staged &&
         writer.dialect().chunk_elements(writer, channel) > 1;
}

// The first row and element of an item. Neighbouring threads read neighbouring chunks of a row; by columns
// they write neighbouring rows.
void open_items(TileWriter& writer, const Channel& channel, const Stage& stage) {
  SourceWriter& out = writer.out();
  const int threads = writer.program().threads();
  writer.open_registers(stage.per_thread, "n");
  out.line(fmt::format("const int e = thread + n * {};", threads));
  if (stage.items % threads != 0) out.line(fmt::format("if (e >= {}) continue;", stage.items));
  const Tile& tile = writer.tile(channel.tile);
  const int groups = tile.rows / stage.rows;
  if (std::get<SharedLayout>(tile.layout).column_major)
    out.line(fmt::format("const int row = {1}, d0 = e / {0} * {2};", groups,
                         times(fmt::format("e % {}", groups), stage.rows), stage.chunk));
  else
    out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", stage.per_row, stage.chunk));
}

// Where a lane's part of an operand begins in shared memory: query block m of the warp, step k along the
// dims.
std::string query_row(const TileWriter& writer, const MatrixUnit& unit) {
  return plus(fmt::format("warp * {} + {}", writer.program().schedule.rows_per_warp, times("m", unit.n)),
              digit_sum(unit.b.lanes, TileAxis::row, "lane"));
}
std::string operand_column(const MatrixUnit& unit, const FragmentLayout& operand) {
  return plus(times("k", unit.k), digit_sum(operand.lanes, TileAxis::col, "lane"));
}

}  // namespace

void HipDialect::begin(TileWriter& writer) const {
  const TileProgram& program = writer.program();
  begin_file(writer, fmt::format("#define AF_WAVE {}\n{}", program.target.warp_size, prelude_types()),
             std::string(prelude()) + std::string(tanh_prelude()) + matrix_prelude(program.unit));
  SourceWriter& out = writer.out();
  // Without the exact size the compiler assumes 1024 threads and spills. Two waves per SIMD keep accumulators
  // in plain registers on CDNA; four or five leave RDNA's scheduler 256 registers without spills.
  std::string attributes = fmt::format("amdgpu_flat_work_group_size({0}, {0})", program.threads());
  if (program.target.warp_size == 32)
    attributes += ", amdgpu_waves_per_eu(4, 5)";
  else if (program.threads() <= 256)
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
      out.line(
          fmt::format("af_u32x4 {}_stage[{}];", channel.name, stage_registers(stage_of(writer, channel))));
}

void HipDialect::end(TileWriter& writer) const { writer.out().close(); }

std::string HipDialect::exchange(const std::string& value, int distance) const {
  return fmt::format("af_exchange<{}>({}, lane)", distance, value);
}

void HipDialect::put(TileWriter& writer, const Put& put) const {
  const TileProgram& program = writer.program();
  const Channel& channel = program.channel(put.channel);
  if (writer.tile(channel.tile).space == Space::registers) return put_operand(writer, put);
  if (!is_staged(writer, channel)) return CDialect::put(writer, put);
  const Tile& to = writer.tile(channel.tile);
  const TensorInfo& source = program.expressions.tensor(channel.source);
  const int extent = source.role == TensorRole::value ? program.value_columns() : program.info.head_dim;
  const std::string first = writer.scalar(put.first_row), limit = writer.scalar(put.row_limit);
  const Stage stage = stage_of(writer, channel);
  SourceWriter& out = writer.out();
  open_items(writer, channel, stage);
  std::string row = "row", slot = "n";
  if (stage.rows > 1) {
    writer.open_registers(stage.rows, "r");
    row = "row + r";
    slot = fmt::format("{} * n + r", stage.rows);
  }
  std::string inside = fmt::format("{} + {} < {}", first, row, limit);
  if (extent < to.cols) inside += fmt::format(" && d0 < {}", extent);
  out.line(fmt::format("{}_stage[{}] = af_u32x4{{0, 0, 0, 0}};", channel.name, slot));
  out.line(
      fmt::format("if ({}) {}_stage[{}] = af_load_16(reinterpret_cast<const {}*>(args.{}_ptr) + {} + d0);",
                  inside, channel.name, slot, type(to.type), source.name,
                  writer.row_offset(source.name, fmt::format("{} + {}", first, row))));
  if (stage.rows > 1) out.close();
  out.close();
}

// Query operands from global memory, eight elements of a row at a time.
void HipDialect::put_operand(TileWriter& writer, const Put& put) const {
  constexpr int kElements = 8;
  const TileProgram& program = writer.program();
  const Channel& channel = program.channel(put.channel);
  const Tile& to = writer.tile(channel.tile);
  const TensorInfo& source = program.expressions.tensor(channel.source);
  const bool whole = chunk_elements(writer, channel) == kElements;
  SourceWriter& out = writer.out();
  writer.open_loop(fmt::format("for (int r = 0; r < {}; r += {})",
                               std::get<FragmentLayout>(to.layout).register_count(), kElements));
  out.line(fmt::format("const int i = {} + {};", writer.scalar(put.first_row),
                       writer.position(to, TileAxis::row, "r")));
  out.line(fmt::format("const int d0 = {};", writer.position(to, TileAxis::col, "r")));
  std::string inside = fmt::format("i < {}", writer.scalar(put.row_limit));
  const std::string last =
      program.info.head_dim < to.cols ? fmt::format(" && {{}} < {}", program.info.head_dim) : "";
  if (whole && !channel.transform.valid()) {
    out.line("af_u32x4 x = {0, 0, 0, 0};");
    out.line(fmt::format("if ({}{}) x = af_load_16(reinterpret_cast<const {}*>(args.{}_ptr) + {} + d0);",
                         inside, fmt::format(fmt::runtime(last), "d0"), type(source.dtype), source.name,
                         writer.row_offset(source.name, "i")));
  } else {
    if (whole) {
      read_chunk(writer, channel, kElements, inside + fmt::format(fmt::runtime(last), "d0"));
    } else {
      out.line(fmt::format("float x[{}] = {{}};", kElements));
      writer.open_registers(kElements, "e1");
      out.line("const int d = d0 + e1;");
      out.open(fmt::format("if ({}{})", inside, fmt::format(fmt::runtime(last), "d")));
      const std::string value = writer.source_element(channel);
      out.line(fmt::format("x[e1] = {};", value));
      out.close();
      out.close();
    }
    out.line(fmt::format("const af_u32x4 packed = af_chunk_{}(x);", name(to.type)));
  }
  writer.open_registers(kElements / 2, "e1");
  out.line(
      fmt::format("{}[r / 2 + e1] = {}[e1];", to.name, whole && !channel.transform.valid() ? "x" : "packed"));
  out.close();
  out.close();
}

void HipDialect::take(TileWriter& writer, const Take& take) const {
  const Channel& channel = writer.program().channel(take.channel);
  SourceWriter& out = writer.out();
  if (is_staged(writer, channel)) {
    const Tile& to = writer.tile(channel.tile);
    const auto& layout = std::get<SharedLayout>(to.layout);
    const Stage stage = stage_of(writer, channel);
    open_items(writer, channel, stage);
    const std::string at = fmt::format("{} + {}", to.name, TileWriter::shared_index(to, "row", "d0"));
    if (layout.column_major)
      out.line(fmt::format("af_store_columns<{}>({}, {}, {}_stage + {});", stage.rows, at, layout.stride,
                           channel.name, times("n", stage.rows)));
    else
      out.line(fmt::format("af_store_16({}, {}_stage[n]);", at, channel.name));
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
  const std::string row = query_row(writer, unit), col = operand_column(unit, unit.b);
  out.line(fmt::format("const af_operand q = af_load_operand({} + {});", from.name,
                       TileWriter::shared_index(from, row, col)));
  writer.open_registers(pairs, "x");
  out.line(fmt::format("{}[{} * (k + {}) + x] = q.x[x];", to.name, pairs, times("m", steps)));
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
  if (a.space == Space::shared) {
    out.line(fmt::format("q[m] = af_load_operand({} + {});", a.name,
                         TileWriter::shared_index(a, query_row(writer, unit), operand_column(unit, unit.b))));
  } else if (half_owned) {
    out.line(fmt::format("q[m] = af_both_halves({} + {} * (k + {}), lane);", a.name, results / 2,
                         times("m", steps)));
  } else {
    writer.open_registers(pairs, "x");
    out.line(fmt::format("q[m].x[x] = {}[{} * (k + {}) + x];", a.name, pairs, times("m", steps)));
    out.close();
  }
  out.close();
  writer.open_registers(columns, "n");
  const std::string at_m = plus(times("n", unit.m), digit_sum(unit.a.lanes, TileAxis::row, "lane"));
  const std::string at_k = operand_column(unit, unit.a);
  const std::string at =
      mma.b_rows_contract ? TileWriter::shared_index(b, at_k, at_m) : TileWriter::shared_index(b, at_m, at_k);
  out.line(fmt::format("const af_operand rows = af_load_operand({} + {});", b.name, at));
  writer.open_registers(blocks, "m");
  out.line(fmt::format("af_mma_{}({} + {} * (n + {}), rows, q[m]);", name(b.type), acc.name, results,
                       times("m", columns)));
  out.close();
  out.close();
  out.close();
  // Scores are read after a barrier: without this the compiler moves the products behind it, with all
  // operands alive.
  if (!mma.b_rows_contract) {
    writer.open_loop(fmt::format("for (int r = 0; r < {}; r += {})", columns * blocks * results, results));
    out.line(fmt::format("af_settle({} + r);", acc.name));
    out.close();
  }
}

// Eight neighbouring columns in one thread go out as one access where alignment allows.
void HipDialect::store(TileWriter& writer, const Store& store) const {
  const Tile& from = writer.tile(store.from);
  const TileProgram& program = writer.program();
  const DType dtype = program.info.dtype;
  const auto& layout = std::get<FragmentLayout>(from.layout);
  const bool chunks = from.cols > 1 && !layout.registers.empty() &&
                      layout.registers[0] == Digit{8, TileAxis::col, 1} && size_in_bytes(dtype) == 2 &&
                      program.schedule.vector_bytes >= 16;
  if (!chunks) return writer.store_elements(store);
  SourceWriter& out = writer.out();
  writer.open_loop(fmt::format("for (int r = 0; r < {}; r += 8)", layout.register_count()));
  out.line(fmt::format("const int i = {} + {}, d = {};", writer.scalar(store.first_row),
                       writer.position(from, TileAxis::row, "r"), writer.position(from, TileAxis::col, "r")));
  std::string inside = fmt::format("i < {}", writer.scalar(store.row_limit));
  if (from.cols > program.value_columns()) inside += fmt::format(" && d < {}", program.value_columns());
  out.line(
      fmt::format("if ({}) af_store_chunk_{}(reinterpret_cast<{}*>(args.{}_ptr) + {} + af_i64(i) * "
                  "args.{}_stride_s + d, {} + r);",
                  inside, name(dtype), type(dtype), store.output, TileWriter::base_of(store.output),
                  store.output, from.name));
  out.close();
}

}  // namespace attnfuse::hip
