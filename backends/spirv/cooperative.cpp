// The leaf for cooperative matrices. A warp is a subgroup and owns rows_per_warp rows; an opaque tile is an
// array of matrices, block row by block row.
#include <fmt/format.h>

#include "backends/common/tile_writer.h"
#include "backends/spirv/dialect.h"

namespace attnfuse::spirv {
namespace {

bool is_opaque(const Tile& tile) { return std::holds_alternative<OpaqueLayout>(tile.layout); }

// Sizes of the arrays of matrices, and how matrices are named and addressed.
class Blocks {
 public:
  explicit Blocks(const TileProgram& program)
      : unit_(program.unit), rows_per_warp_(program.schedule.rows_per_warp) {}

  int rows() const { return rows_per_warp_ / unit_.m; }
  int cols(const Tile& tile) const { return tile.cols / unit_.n; }
  int steps(const Tile& a) const { return a.cols / unit_.k; }

  std::string accumulator() const { return matrix("float", unit_.m, unit_.n, "gl_MatrixUseAccumulator"); }
  std::string a() const { return matrix("af_f16", unit_.m, unit_.k, "gl_MatrixUseA"); }
  std::string b() const { return matrix("af_f16", unit_.k, unit_.n, "gl_MatrixUseB"); }

  // First row of block row `m` of this subgroup.
  std::string row(const std::string& m) const {
    return fmt::format("(warp * {} + {} * {})", rows_per_warp_, m, unit_.m);
  }
  std::string element(const Tile& tile) const { return fmt::format("{}[n + {} * m]", tile.name, cols(tile)); }

  // "tile, offset, stride, order" of the block whose first element is (row, col); `transposed` reads rows as
  // columns.
  static std::string place(const Tile& tile, const std::string& row, const std::string& col,
                           bool transposed = false) {
    const auto& layout = std::get<SharedLayout>(tile.layout);
    return fmt::format("{}, {}, {}, gl_CooperativeMatrixLayout{}", tile.name,
                       TileWriter::shared_index(tile, row, col), layout.stride,
                       layout.column_major != transposed ? "ColumnMajor" : "RowMajor");
  }

  void open(TileWriter& writer, const Tile& tile) const {
    writer.open_registers(rows(), "m");
    writer.open_registers(cols(tile), "n");
  }
  static void close(TileWriter& writer) {
    writer.out().close();
    writer.out().close();
  }

  const MatrixUnit& unit() const { return unit_; }

 private:
  static std::string matrix(const char* type, int rows, int cols, const char* use) {
    return fmt::format("coopmat<{}, gl_ScopeSubgroup, {}, {}, {}>", type, rows, cols, use);
  }

  const MatrixUnit& unit_;
  int rows_per_warp_;
};

}  // namespace

void CooperativeDialect::declare(TileWriter& writer, const Tile& tile) const {
  if (!is_opaque(tile)) return GlslDialect::declare(writer, tile);
  const Blocks blocks(writer.program());
  writer.out().line(fmt::format("{} {}[{}];  // {} x {}", blocks.accumulator(), tile.name,
                                blocks.rows() * blocks.cols(tile), tile.rows, tile.cols));
}

void CooperativeDialect::fill(TileWriter& writer, const Fill& fill) const {
  const Tile& tile = writer.tile(fill.tile);
  if (!is_opaque(tile)) return GlslDialect::fill(writer, fill);
  const Blocks blocks(writer.program());
  writer.open_registers(blocks.rows() * blocks.cols(tile));
  writer.out().line(fmt::format("{}[r] = {}({});", tile.name, blocks.accumulator(), literal(fill.value)));
  writer.out().close();
}

void CooperativeDialect::mma(TileWriter& writer, const Mma& mma) const {
  const Tile &acc = writer.tile(mma.accumulator), &a = writer.tile(mma.a), &b = writer.tile(mma.b);
  const Blocks blocks(writer.program());
  SourceWriter& out = writer.out();
  const std::string k = fmt::format("k * {}", blocks.unit().k), n = fmt::format("n * {}", blocks.unit().n);
  out.open(fmt::format("for (int k = 0; k < {}; ++k)", blocks.steps(a)));
  out.line(fmt::format("{} a[{}];", blocks.a(), blocks.rows()));
  writer.open_registers(blocks.rows(), "m");
  out.line(fmt::format("coopMatLoad(a[m], {});", Blocks::place(a, blocks.row("m"), k)));
  out.close();
  writer.open_registers(blocks.cols(acc), "n");
  out.line(fmt::format("{} b;", blocks.b()));
  out.line(fmt::format("coopMatLoad(b, {});",
                       mma.b_rows_contract ? Blocks::place(b, k, n) : Blocks::place(b, n, k, true)));
  writer.open_registers(blocks.rows(), "m");
  out.line(fmt::format("{0} = coopMatMulAdd(a[m], b, {0});", blocks.element(acc)));
  out.close();
  out.close();
  out.close();
}

void CooperativeDialect::move(TileWriter& writer, const Move& move) const {
  const Tile &to = writer.tile(move.to), &from = writer.tile(move.from);
  if (!is_opaque(from)) return GlslDialect::move(writer, move);
  if (move.via.valid()) return move_by_way(writer, move);
  const Blocks blocks(writer.program());
  blocks.open(writer, from);
  writer.out().line(fmt::format("coopMatStore({}, {});", blocks.element(from),
                                Blocks::place(to, blocks.row("m"), fmt::format("n * {}", blocks.unit().n))));
  Blocks::close(writer);
}

// A subgroup touches its own rows only.
void CooperativeDialect::move_by_way(TileWriter& writer, const Move& move) const {
  const Tile &to = writer.tile(move.to), &from = writer.tile(move.from), &via = writer.tile(move.via);
  SourceWriter& out = writer.out();
  const int count = std::get<FragmentLayout>(to.layout).register_count();
  for (int first = 0; first < from.cols; first += via.cols) {
    const int cols = std::min(via.cols, from.cols - first);
    stage_columns(writer, from, via, first, cols);
    writer.open_registers(count);
    out.line(fmt::format("const int col = {} - {};", writer.position(to, TileAxis::col, "r"), first));
    out.line(fmt::format("if (col >= 0 && col < {}) {}[r] = {}[{}];", cols, to.name, via.name,
                         TileWriter::shared_index(via, writer.position(to, TileAxis::row, "r"), "col")));
    out.close();
  }
}

// Columns [first, first + cols) of an opaque tile to those of a shared one.
void CooperativeDialect::stage_columns(TileWriter& writer, const Tile& from, const Tile& via, int first,
                                       int cols) const {
  const Blocks blocks(writer.program());
  SourceWriter& out = writer.out();
  const int step = blocks.unit().n;
  out.line(barrier(Scope::warp));
  writer.open_registers(blocks.rows(), "m");
  writer.open_registers(cols / step, "n");
  out.line(fmt::format("coopMatStore({}[n + {} + {} * m], {});", from.name, first / step, blocks.cols(from),
                       Blocks::place(via, blocks.row("m"), fmt::format("n * {}", step))));
  Blocks::close(writer);
  out.line(barrier(Scope::warp));
}

// With stride 0 every column of the loaded matrix is the vector of factors.
void CooperativeDialect::scale_rows(TileWriter& writer, const ScaleRows& scale) const {
  const Tile &tile = writer.tile(scale.tile), &factor = writer.tile(scale.factor);
  if (!is_opaque(tile)) return GlslDialect::scale_rows(writer, scale);
  const Blocks blocks(writer.program());
  SourceWriter& out = writer.out();
  writer.open_registers(blocks.rows(), "m");
  out.line(fmt::format("{} f;", blocks.accumulator()));
  out.line(fmt::format("coopMatLoad(f, {}, {}, 0, gl_CooperativeMatrixLayoutColumnMajor);", factor.name,
                       TileWriter::shared_index(factor, blocks.row("m"), "0")));
  writer.open_registers(blocks.cols(tile), "n");
  out.line(fmt::format("{0} = {0} * f;", blocks.element(tile)));
  out.close();
  out.close();
}

// Through the shared tile `via`, as many columns at a time as it has. A subgroup touches its own rows only.
void CooperativeDialect::store(TileWriter& writer, const Store& store) const {
  const Tile& from = writer.tile(store.from);
  if (!is_opaque(from)) return GlslDialect::store(writer, store);
  const Tile& via = writer.tile(store.via);
  const TileProgram& program = writer.program();
  SourceWriter& out = writer.out();
  const int rows = program.schedule.rows_per_warp;
  for (int first = 0; first < from.cols; first += via.cols) {
    const int cols = std::min(via.cols, from.cols - first);
    stage_columns(writer, from, via, first, cols);
    out.open(fmt::format("for (int e = lane; e < {}; e += {})", rows * cols, program.target.warp_size));
    out.line(fmt::format("const int row = warp * {} + e / {}, col = e % {}, d = {} + col;", rows, cols, cols,
                         first));
    out.line(fmt::format("const int i = {} + row;", writer.scalar(store.first_row)));
    std::string inside = fmt::format("i < {}", writer.scalar(store.row_limit));
    if (first + cols > program.value_columns()) inside += fmt::format(" && d < {}", program.value_columns());
    out.open(fmt::format("if ({})", inside));
    const std::string at = fmt::format("{} + {} * args.{}_stride_s + d", TileWriter::base_of(store.output),
                                       int64("i"), store.output);
    store_global(out, store.output, program.info.dtype, at,
                 fmt::format("{}[{}]", via.name, TileWriter::shared_index(via, "row", "col")));
    out.close();
    out.close();
  }
}

}  // namespace attnfuse::spirv
