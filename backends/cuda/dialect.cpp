#include "backends/cuda/dialect.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/common/tile_writer.h"
#include "backends/cuda/prelude.h"

namespace attnfuse::cuda {
namespace {

// The address of the 8x8 matrix row that this lane names, for a 16x16 block at (row, col) of a shared tile.
// Rows first (lanes 0-15 name 16 rows, the upper half the next 8 columns), or columns first.
std::string rows_first(const Tile& tile, const std::string& row, const std::string& col) {
  return fmt::format("{} + {}", tile.name,
                     TileWriter::shared_index(tile, row + " + lane % 16", col + " + lane / 16 * 8"));
}
std::string columns_first(const Tile& tile, const std::string& row, const std::string& col) {
  return fmt::format(
      "{} + {}", tile.name,
      TileWriter::shared_index(tile, row + " + lane / 16 * 8 + lane % 8", col + " + lane / 8 % 2 * 8"));
}

std::string warp_row(const TileWriter& writer, const std::string& block) {
  return fmt::format("warp * {} + {} * 16", writer.program().schedule.rows_per_warp, block);
}

}  // namespace

void CudaDialect::begin(TileWriter& writer) const {
  begin_file(writer, prelude_types(), prelude(writer.program()));
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  out.open(fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}) {}(const __grid_constant__ Arguments args)",
      program.threads(), program.name));
  out.line("extern __shared__ __align__(16) unsigned char shared_memory[];");
  shared_tiles(writer, "shared_memory");
  out.line("const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32;");
  out.line("const int block = int(blockIdx.x + blockIdx.y * gridDim.x);");
  out.line("if (thread == 0) *has_nonfinite = 0;");
}

// A workgroup without key tiles never takes the copy of its queries: no copy outlives its kernel.
void CudaDialect::end(TileWriter& writer) const {
  const auto& channels = writer.program().channels;
  if (std::ranges::any_of(channels, [](const Channel& channel) { return channel.kind == CopyKind::async; }))
    writer.out().line("af_copy_wait();");
  writer.out().close();
}

std::string CudaDialect::pair_function(const TileProgram& program, ScalarOp op) const {
  return op == ScalarOp::tanh && takes_absolute_errors(program.expressions) ? "af_tanh_pair" : "";
}

std::string CudaDialect::exchange(const std::string& value, int distance) const {
  return fmt::format("__shfl_xor_sync(0xffffffffu, {}, {})", value, distance);
}

void CudaDialect::chain(TileWriter& writer, const Chain& chain) const {
  if (writer.program().target.pipeline)
    writer.out().line(chain.wait ? "af_grid_wait();" : "af_grid_launch_dependents();");
}

void CudaDialect::take(TileWriter& writer, const Take& take) const {
  if (writer.program().channel(take.channel).kind == CopyKind::async) writer.out().line("af_copy_wait();");
  writer.out().line(barrier(Scope::workgroup));
}

// Query operands from shared memory into registers, once.
void CudaDialect::move(TileWriter& writer, const Move& move) const {
  const Tile &to = writer.tile(move.to), &from = writer.tile(move.from);
  if (to.space != Space::registers || to.type == DType::f32) return writer.move_elements(move);
  SourceWriter& out = writer.out();
  const int blocks = writer.program().schedule.rows_per_warp / 16, steps = to.cols / 16;
  writer.open_registers(blocks, "m");
  writer.open_registers(steps, "k");
  out.line(fmt::format("af_u32* const a = {} + 4 * (k + {} * m);", to.name, steps));
  out.line(fmt::format("af_ldmatrix(a[0], a[1], a[2], a[3], {});",
                       rows_first(from, warp_row(writer, "m"), "k * 16")));
  out.close();
  out.close();
}

// Fragments of one 16-wide step of the contraction: a from registers or shared memory, b always from shared
// memory, two 8-column accumulators at a time.
void CudaDialect::mma(TileWriter& writer, const Mma& mma) const {
  if (writer.program().unit.is_fma()) return writer.multiply_elements(mma);
  SourceWriter& out = writer.out();
  const Tile &acc = writer.tile(mma.accumulator), &a = writer.tile(mma.a), &b = writer.tile(mma.b);
  const int blocks = writer.program().schedule.rows_per_warp / 16;
  const int steps = a.cols / 16, columns = acc.cols / 8;
  const bool from_scores = mma.b_rows_contract;  // a is an accumulator of the first product, packed
  const std::string product = "af_mma_" + std::string(name(b.type));
  writer.open_registers(steps, "k");
  out.line(fmt::format("af_u32 a[{}][4];", blocks));
  writer.open_registers(blocks, "m");
  if (a.space == Space::shared)
    out.line(fmt::format("af_ldmatrix(a[m][0], a[m][1], a[m][2], a[m][3], {});",
                         rows_first(a, warp_row(writer, "m"), "k * 16")));
  else
    out.line(fmt::format("for (int x = 0; x < 4; ++x) a[m][x] = {}[4 * (k + {} * m) + x];", a.name, steps));
  out.close();
  const auto products = [&](const std::string& column, int first) {
    for (int half = 0; half < 2 - first; ++half) {
      writer.open_registers(blocks, "m");
      out.line(fmt::format("{}({} + 4 * ({} + {} * m), a[m][0], a[m][1], a[m][2], a[m][3], b{}, b{});",
                           product, acc.name, half == 0 ? column : column + " + 1", columns, 2 * half,
                           2 * half + 1));
      out.close();
    }
  };
  writer.open_loop(fmt::format("for (int n = 0; n + 1 < {}; n += 2)", columns));
  out.line("af_u32 b0, b1, b2, b3;");
  if (from_scores)
    out.line(fmt::format("af_ldmatrix_transposed(b0, b1, b2, b3, {});", rows_first(b, "k * 16", "n * 8")));
  else
    out.line(fmt::format("af_ldmatrix(b0, b1, b2, b3, {});", columns_first(b, "n * 8", "k * 16")));
  products("n", 0);
  out.close();
  if (columns % 2 != 0) {
    out.line("af_u32 b0, b1;");
    out.line(
        fmt::format("af_ldmatrix_transposed(b0, b1, {} + {});", b.name,
                    TileWriter::shared_index(b, "k * 16 + lane % 16", std::to_string((columns - 1) * 8))));
    products(std::to_string(columns - 1), 1);
  }
  out.close();
}

}  // namespace attnfuse::cuda
