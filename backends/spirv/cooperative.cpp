// Cooperative matrices (GL_KHR_cooperative_matrix, subgroup scope): each subgroup owns rows_per_warp rows. Accumulators
// are arrays of m x n matrices, the columns of one block of rows after another.
#include <fmt/format.h>

#include "backends/common/tile_writer.h"
#include "backends/spirv/dialect.h"

namespace attnfuse::spirv {
namespace {

bool is_opaque(const Tile& tile) { return std::holds_alternative<OpaqueLayout>(tile.layout); }
int stride_of(const Tile& tile) { return std::get<SharedLayout>(tile.layout).stride; }

struct Blocks {
  int rows, cols;  // matrices per subgroup
};
Blocks blocks_of(const TileWriter& writer, const Tile& tile) {
  const MatrixUnit& unit = writer.program().unit;
  return {writer.program().schedule.rows_per_warp / unit.m, tile.cols / unit.n};
}

std::string matrix(const char* element, int rows, int cols, const char* use) {
  return fmt::format("coopmat<{}, gl_ScopeSubgroup, {}, {}, gl_MatrixUse{}>", element, rows, cols, use);
}
std::string accumulator(const MatrixUnit& unit) { return matrix("float", unit.m, unit.n, "Accumulator"); }

// First row of block m of this subgroup.
std::string row_of(const TileWriter& writer, const std::string& block) {
  return fmt::format("(warp * {} + {} * {})", writer.program().schedule.rows_per_warp, block, writer.program().unit.m);
}

void for_blocks(TileWriter& writer, const Blocks& blocks) {
  writer.open_registers(blocks.rows, "m");
  writer.open_registers(blocks.cols, "n");
}

}  // namespace

void GlslDialect::declare(TileWriter& writer, const Tile& tile) const {
  if (!is_opaque(tile)) return Dialect::declare(writer, tile);
  const Blocks blocks = blocks_of(writer, tile);
  writer.out().line(fmt::format("{} {}[{}];", accumulator(writer.program().unit), tile.name, blocks.rows * blocks.cols));
}

void GlslDialect::fill(TileWriter& writer, const Fill& fill) const {
  const Tile& tile = writer.tile(fill.tile);
  if (!is_opaque(tile)) return Dialect::fill(writer, fill);
  const Blocks blocks = blocks_of(writer, tile);
  writer.open_registers(blocks.rows * blocks.cols);
  writer.out().line(fmt::format("{}[r] = {}({});", tile.name, accumulator(writer.program().unit), literal(fill.value)));
  writer.out().close();
}

void GlslDialect::move(TileWriter& writer, const Move& move) const {
  const Tile &from = writer.tile(move.from), &to = writer.tile(move.to);
  if (!is_opaque(from)) return writer.move_elements(move);
  const Blocks blocks = blocks_of(writer, from);
  for_blocks(writer, blocks);
  writer.out().line(fmt::format("coopMatStore({}[m * {} + n], {}, {} * {} + n * {}, {}, gl_CooperativeMatrixLayoutRowMajor);", from.name, blocks.cols, to.name, row_of(writer, "m"), stride_of(to), writer.program().unit.n, stride_of(to)));
  writer.out().close();
  writer.out().close();
}

void GlslDialect::mma(TileWriter& writer, const Mma& mma) const {
  const Tile &acc = writer.tile(mma.accumulator), &a = writer.tile(mma.a), &b = writer.tile(mma.b);
  if (!is_opaque(acc)) return writer.multiply_elements(mma);
  const MatrixUnit& unit = writer.program().unit;
  const Blocks blocks = blocks_of(writer, acc);
  SourceWriter& out = writer.out();
  out.open(fmt::format("for (int k = 0; k < {}; ++k)", a.cols / unit.k));
  out.line(fmt::format("{} a[{}];", matrix("float16_t", unit.m, unit.k, "A"), blocks.rows));
  writer.open_registers(blocks.rows, "m");
  out.line(fmt::format("coopMatLoad(a[m], {}, {} * {} + k * {}, {}, gl_CooperativeMatrixLayoutRowMajor);", a.name, row_of(writer, "m"), stride_of(a), unit.k, stride_of(a)));
  out.close();
  writer.open_registers(blocks.cols, "n");
  out.line(fmt::format("{} b;", matrix("float16_t", unit.k, unit.n, "B")));
  if (mma.b_rows_contract)
    out.line(fmt::format("coopMatLoad(b, {}, k * {} + n * {}, {}, gl_CooperativeMatrixLayoutRowMajor);", b.name, unit.k * stride_of(b), unit.n, stride_of(b)));
  else
    out.line(fmt::format("coopMatLoad(b, {}, n * {} + k * {}, {}, gl_CooperativeMatrixLayoutColumnMajor);", b.name, unit.n * stride_of(b), unit.k, stride_of(b)));
  writer.open_registers(blocks.rows, "m");
  out.line(fmt::format("{0}[m * {1} + n] = coopMatMulAdd(a[m], b, {0}[m * {1} + n]);", acc.name, blocks.cols));
  out.close();
  out.close();
  out.close();
}

// The factor of each row, loaded as a matrix whose columns are the same (stride 0), then element by element.
void GlslDialect::scale_rows(TileWriter& writer, const ScaleRows& scale) const {
  const Tile &tile = writer.tile(scale.tile), &factor = writer.tile(scale.factor);
  if (!is_opaque(tile)) return Dialect::scale_rows(writer, scale);
  const Blocks blocks = blocks_of(writer, tile);
  SourceWriter& out = writer.out();
  writer.open_registers(blocks.rows, "m");
  out.line(fmt::format("{} factor;", accumulator(writer.program().unit)));
  out.line(fmt::format("coopMatLoad(factor, {}, {}, 0, gl_CooperativeMatrixLayoutColumnMajor);", factor.name, row_of(writer, "m")));
  writer.open_registers(blocks.cols, "n");
  out.line(fmt::format("for (int e = 0; e < factor.length(); ++e) {0}[m * {1} + n][e] *= factor[e];", tile.name, blocks.cols));
  out.close();
  out.close();
}

// Through the shared tile, as many columns at a time as it holds; then every thread writes rows element by element.
void GlslDialect::store(TileWriter& writer, const Store& store) const {
  const Tile& from = writer.tile(store.from);
  if (!is_opaque(from)) return writer.store_elements(store);
  const Tile& via = writer.tile(store.via);
  const TileProgram& program = writer.program();
  const Blocks blocks = blocks_of(writer, from);
  const int at_once = std::min(via.cols / program.unit.n, blocks.cols);
  SourceWriter& out = writer.out();
  writer.open_loop(fmt::format("for (int n0 = 0; n0 < {}; n0 += {})", blocks.cols, at_once));
  out.line(barrier(Scope::workgroup));
  for_blocks(writer, {blocks.rows, at_once});
  out.line(fmt::format("if (n0 + n < {}) coopMatStore({}[m * {} + n0 + n], {}, {} * {} + n * {}, {}, gl_CooperativeMatrixLayoutRowMajor);", blocks.cols, from.name, blocks.cols, via.name, row_of(writer, "m"), stride_of(via), program.unit.n, stride_of(via)));
  out.close();
  out.close();
  out.line(barrier(Scope::workgroup));
  const int cols = at_once * program.unit.n;
  out.open(fmt::format("for (int e = thread; e < {}; e += {})", from.rows * cols, program.threads()));
  out.line(fmt::format("const int row = e / {0}, i = {1} + row, d = n0 * {2} + e % {0};", cols, writer.scalar(store.first_row), program.unit.n));
  out.open(fmt::format("if (i < {} && d < {})", writer.scalar(store.row_limit), program.info.v_head_dim));
  store_global(out, store.output, program.info.dtype, fmt::format("{} + {} * args.{}_stride_s + d", TileWriter::base_of(store.output), int64("i"), store.output), fmt::format("{}[row * {} + e % {}]", via.name, stride_of(via), cols));
  out.close();
  out.close();
  out.close();
}

}  // namespace attnfuse::spirv
