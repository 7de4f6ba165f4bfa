// Generic leaves: right on every machine, replaced by a dialect where the machine offers more.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/common/tile_writer.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

bool reads_memory_type(DType type) { return type == DType::f16 || type == DType::bf16; }

std::string to_f32(DType type, const std::string& text) {
  return reads_memory_type(type) ? fmt::format("af_from_{}({})", name(type), text) : text;
}
std::string from_f32(DType type, const std::string& text) {
  return reads_memory_type(type) ? fmt::format("af_to_{}({})", name(type), text) : text;
}

}  // namespace

std::string partner_index(const Partner& partner, const std::string& d) {
  switch (partner.pairs) {
    case RotaryPairs::half:
      return fmt::format("({0} < {1} ? {0} + {1} : {0} < {2} ? {0} - {1} : {0})", d, partner.count / 2,
                         partner.count);
    case RotaryPairs::interleaved:
      return fmt::format("({0} < {1} ? ({0} ^ 1) : {0})", d, partner.count);
  }
  return d;
}

int Dialect::chunk_elements(const TileWriter&, const Channel&) const { return 1; }
void Dialect::put(TileWriter& writer, const Put& put) const { writer.put_elements(put); }
void Dialect::take(TileWriter& writer, const Take&) const { writer.out().line(barrier(Scope::workgroup)); }
void Dialect::mma(TileWriter& writer, const Mma& mma) const { writer.multiply_elements(mma); }
void Dialect::move(TileWriter& writer, const Move& move) const { writer.move_elements(move); }
void Dialect::store(TileWriter& writer, const Store& store) const { writer.store_elements(store); }
std::string Dialect::group_barrier(const TileWriter&) const { return barrier(Scope::workgroup); }
void Dialect::chain(TileWriter&, const Chain&) const {}
void Dialect::scrub(TileWriter& writer, const Scrub& scrub) const { writer.scrub_elements(scrub); }

namespace {
[[noreturn]] void no_roles() { ATTNFUSE_CHECK(false, "this machine runs no programs with roles"); }
}  // namespace

std::string Dialect::any_lane(const std::string&) const { no_roles(); }
void Dialect::mended(TileWriter&) const { no_roles(); }
void Dialect::acquire(TileWriter&, const Acquire&) const { no_roles(); }
void Dialect::signal(TileWriter&, const Signal&) const { no_roles(); }
void Dialect::advance(TileWriter&, const Advance&) const { no_roles(); }
void Dialect::mma_wait(TileWriter&, const MmaWait&) const { no_roles(); }
void Dialect::bulk_store(TileWriter&, const BulkStore&) const { no_roles(); }
void Dialect::map_slot(TileWriter&, const MapSlot&) const { no_roles(); }
void Dialect::bulk_drain(TileWriter&) const { no_roles(); }
void Dialect::roles(TileWriter&, const Roles&) const { no_roles(); }
void Dialect::work_items(TileWriter&, const WorkItems&) const { no_roles(); }
void Dialect::doubt(TileWriter&, const Doubt&) const { no_roles(); }
void Dialect::turn(TileWriter&, const Turn&) const { no_roles(); }

void Dialect::declare(TileWriter& writer, const Tile& tile) const {
  const int count = std::get<FragmentLayout>(tile.layout).register_count();
  switch (tile.type) {
    case DType::f16:
    case DType::bf16:
      writer.out().line(fmt::format("af_u32 {}[{}];", tile.name, count / 2));
      break;
    case DType::f32:
      writer.out().line(fmt::format("float {}[{}];", tile.name, count));
      break;
    case DType::i32:
      writer.out().line(fmt::format("int {}[{}];", tile.name, count));
      break;
    case DType::boolean:
      writer.out().line(fmt::format("bool {}[{}];", tile.name, count));
      break;
  }
}

void Dialect::fill(TileWriter& writer, const Fill& fill) const {
  const Tile& tile = writer.tile(fill.tile);
  writer.open_registers(std::get<FragmentLayout>(tile.layout).register_count());
  writer.out().line(fmt::format("{}[r] = {};", tile.name, literal(fill.value)));
  writer.out().close();
}

void Dialect::scale_rows(TileWriter& writer, const ScaleRows& scale) const {
  const Tile &tile = writer.tile(scale.tile), &factor = writer.tile(scale.factor);
  writer.open_registers(std::get<FragmentLayout>(tile.layout).register_count());
  writer.out().line(
      fmt::format("{}[r] *= {}[{}];", tile.name, factor.name, writer.vector_index(tile, TileAxis::row, "r")));
  writer.out().close();
}

namespace {

// Where a channel's rows come from.
struct SourceRows {
  const TensorInfo& source;
  std::string position;  // "i" or "j"
  int extent;            // elements of a row
};

SourceRows source_rows(const TileProgram& program, const Channel& channel) {
  const TensorInfo& source = program.expressions.tensor(channel.source);
  return {source, source.role == TensorRole::query ? "i" : "j",
          source.role == TensorRole::value ? program.value_columns() : program.info.head_dim};
}

void define_row_base(TileWriter& writer, const SourceRows& rows) {
  writer.out().line(
      fmt::format("const af_i64 row_base = {};", writer.row_offset(rows.source.name, rows.position)));
}

// Element d of the tile's row: the source's where `inside` holds, else 0. Rows that are reduced have a base
// already.
void put_element(TileWriter& writer, const Channel& channel, const SourceRows& rows, std::string inside,
                 const std::map<NodeId, std::string>& reduced = {}) {
  SourceWriter& out = writer.out();
  const Tile& to = writer.tile(channel.tile);
  out.line("float value = 0.0f;");
  if (rows.extent < to.cols) inside += fmt::format(" && d < {}", rows.extent);
  out.open(fmt::format("if ({})", inside));
  const std::string value =
      reduced.empty() ? writer.source_element(channel) : writer.transformed_element(channel, reduced);
  out.line(fmt::format("value = {};", value));
  out.close();
  out.line(fmt::format("{}[{}] = {};", writer.array_of(to), TileWriter::shared_index(to, "row", "d"),
                       from_f32(to.type, "value")));
}

// Transforms that reduce a row: a thread takes whole rows. Rows past the limit are computed as the last one.
void put_rows(TileWriter& writer, const Put& put) {
  SourceWriter& out = writer.out();
  const Channel& channel = writer.program().channel(put.channel);
  const Tile& to = writer.tile(channel.tile);
  const SourceRows rows = source_rows(writer.program(), channel);
  const std::string limit = writer.scalar(put.row_limit);
  out.open(fmt::format("for (int row = thread; row < {}; row += {})", to.rows, writer.threads()));
  out.line(fmt::format("const int place = {} + row;", writer.scalar(put.first_row)));
  out.line(fmt::format("const int {} = af_imin(place, {} - 1);", rows.position, limit));
  define_row_base(writer, rows);
  const std::map<NodeId, std::string> reduced =
      writer.reductions({channel.transform}, rows.source, "row_base");
  out.open(fmt::format("for (int d = 0; d < {}; ++d)", to.cols));
  put_element(writer, channel, rows, fmt::format("place < {}", limit), reduced);
  out.close();
  out.close();
}

}  // namespace

// Rows [first, first + rows) of the source, element by element, transformed on the way.
void TileWriter::put_elements(const Put& put) {
  const Channel& channel = program_.channel(put.channel);
  if (channel.transform.valid() && reduces(program_.expressions, channel.transform))
    return put_rows(*this, put);
  const Tile& to = tile(channel.tile);
  const SourceRows rows = source_rows(program_, channel);
  out_.open(fmt::format("for (int e = thread; e < {}; e += {})", to.rows * to.cols, threads()));
  out_.line(fmt::format("const int row = e / {0}, d = e % {0};", to.cols));
  out_.line(fmt::format("const int {} = {} + row;", rows.position, scalar(put.first_row)));
  put_element(*this, channel, rows, fmt::format("{} < {}", rows.position, scalar(put.row_limit)));
  out_.close();
}

std::string TileWriter::source_element(const Channel& channel) {
  const SourceRows rows = source_rows(program_, channel);
  define_row_base(*this, rows);
  if (!channel.transform.valid()) return transformed_element(channel, {});
  return transformed_element(channel, reductions({channel.transform}, rows.source, "row_base"));
}

std::string TileWriter::transformed_element(const Channel& channel,
                                            const std::map<NodeId, std::string>& reduced) {
  const TensorInfo& source = program_.expressions.tensor(channel.source);
  const auto load = [&](const std::string& d) {
    return dialect_.load_global(source.name, source.dtype, "row_base + " + d);
  };
  if (!channel.transform.valid()) return load("d");
  const Graph& graph = program_.expressions;
  return expression(
      channel.transform,
      {[](const std::string& name) { return name; }, [](Axis axis) { return std::string(name(axis)); },
       [&](NodeId id) {
         if (const auto found = reduced.find(id); found != reduced.end()) return found->second;
         const auto* partner = as<Partner>(graph.node(id));
         return load(partner == nullptr ? "d" : partner_index(*partner, "d"));
       }});
}

bool TileWriter::may_share(const std::vector<NodeId>& roots, int lanes, int rows) const {
  const Graph& graph = program_.expressions;
  bool reduces = false;
  for (NodeId id : cone(graph, roots)) {
    if (as<Reduce>(graph.node(id)) == nullptr) continue;
    reduces = true;
    // A partner may lie in another lane.
    if (!partners(graph, id).empty()) return false;
  }
  const bool is_power = lanes > 0 && (lanes & (lanes - 1)) == 0;
  return reduces && is_power && lanes <= dialect_.exchange_width(program_.target) && threads_ % lanes == 0 &&
         rows * lanes % threads_ == 0;
}

// Inner reductions come before those that read them.
std::map<NodeId, std::string> TileWriter::reductions(const std::vector<NodeId>& roots,
                                                     const TensorInfo& source, const std::string& row,
                                                     const RowPart* part) {
  const Graph& graph = program_.expressions;
  const int extent = source.role == TensorRole::value ? program_.value_columns() : program_.info.head_dim;
  std::map<NodeId, std::string> names;
  const auto load = [&](const std::string& d) {
    return dialect_.load_global(source.name, source.dtype, fmt::format("{} + {}", row, d));
  };
  const auto accumulate = [&](NodeId id, ReduceOp op, const std::string& result) {
    const std::string value =
        expression(graph.operand(id, 0),
                   {[](const std::string& name) { return name; },
                    [](Axis axis) { return axis == Axis::d ? "column" : std::string(name(axis)); },
                    [&](NodeId leaf) {
                      if (const auto found = names.find(leaf); found != names.end()) return found->second;
                      const auto* partner = as<Partner>(graph.node(leaf));
                      return partner == nullptr ? "element" : load(partner_index(*partner, "column"));
                    }});
    out_.line(fmt::format("{} = {};", result, combine(op, result, "(" + value + ")")));
  };
  for (NodeId id : cone(graph, roots)) {
    const auto* reduce = as<Reduce>(graph.node(id));
    if (reduce == nullptr) continue;
    const std::string result = fmt::format("over_d{}", names.size());
    out_.line(fmt::format("float {} = {};", result, literal(identity(reduce->op))));
    if (part == nullptr) {
      out_.open(fmt::format("for (int column = 0; column < {}; ++column)", extent));
      out_.line(fmt::format("const float element = {};", load("column")));
      accumulate(id, reduce->op, result);
      out_.close();
    } else {
      for (const RowPart::Columns& columns : part->columns) {
        open_registers(part->width, "own");
        out_.line(fmt::format("const int column = {} + own;", columns.first));
        if (part->is_padded) out_.line(fmt::format("if (column >= {}) continue;", extent));
        out_.line(fmt::format("const float element = {}[own];", columns.array));
        accumulate(id, reduce->op, result);
        out_.close();
      }
      for (int distance = 1; distance < part->lanes; distance *= 2)
        out_.line(fmt::format("{} = {};", result,
                              combine(reduce->op, result, dialect_.exchange(result, distance))));
    }
    names[id] = result;
  }
  return names;
}

void TileWriter::multiply_elements(const Mma& mma) {
  const Tile &acc = tile(mma.accumulator), &a = tile(mma.a), &b = tile(mma.b);
  const auto& layout = std::get<FragmentLayout>(acc.layout);
  Tile rows = acc, cols = acc;
  rows.layout = vector_along(layout, TileAxis::row);
  cols.layout = vector_along(layout, TileAxis::col);
  const int row_count = std::get<FragmentLayout>(rows.layout).register_count();
  const int col_count = std::get<FragmentLayout>(cols.layout).register_count();
  out_.open(fmt::format("for (int k = 0; k < {}; ++k)", a.cols));
  out_.line(fmt::format("float a_k[{}], b_k[{}];", row_count, col_count));
  open_registers(row_count);
  out_.line(fmt::format(
      "a_k[r] = {};", to_f32(a.type, fmt::format("{}[{}]", a.name,
                                                 shared_index(a, position(rows, TileAxis::row, "r"), "k")))));
  out_.close();
  open_registers(col_count);
  const std::string col = position(cols, TileAxis::col, "r");
  const std::string at = mma.b_rows_contract ? shared_index(b, "k", col) : shared_index(b, col, "k");
  out_.line(fmt::format("b_k[r] = {};", to_f32(b.type, fmt::format("{}[{}]", b.name, at))));
  out_.close();
  open_registers(layout.register_count());
  out_.line(fmt::format("{}[r] += a_k[{}] * b_k[{}];", acc.name, vector_index(acc, TileAxis::row, "r"),
                        vector_index(acc, TileAxis::col, "r")));
  out_.close();
  out_.close();
}

void TileWriter::move_elements(const Move& move) {
  const Tile &to = tile(move.to), &from = tile(move.from);
  const bool to_shared = to.space == Space::shared;
  const Tile& registers = to_shared ? from : to;
  const Tile& shared = to_shared ? to : from;
  open_registers(std::get<FragmentLayout>(registers.layout).register_count());
  const std::string element =
      fmt::format("{}[{}]", array_of(shared),
                  shared_index(shared, position(registers, TileAxis::row, "r"),
                               registers.cols == 1 ? "0" : position(registers, TileAxis::col, "r")));
  out_.line(to_shared ? fmt::format("{} = {};", element, from_f32(shared.type, registers.name + "[r]"))
                      : fmt::format("{}[r] = {};", registers.name, to_f32(shared.type, element)));
  out_.close();
}

void TileWriter::store_elements(const Store& store) {
  const Tile& from = tile(store.from);
  const auto& layout = std::get<FragmentLayout>(from.layout);
  const bool is_vector = from.cols == 1;
  const DType dtype = is_vector ? DType::f32 : program_.info.dtype;
  const std::string condition = is_vector ? one_lane_condition(layout) : "";
  if (!condition.empty()) out_.open(fmt::format("if ({})", condition));
  open_registers(layout.register_count());
  out_.line(
      fmt::format("const int i = {} + {};", scalar(store.first_row), position(from, TileAxis::row, "r")));
  std::string inside = fmt::format("i < {}", scalar(store.row_limit));
  std::string at = fmt::format("{} + {} * args.{}_stride_{}", base_of(store.output), dialect_.int64("i"),
                               store.output, "s");
  if (!is_vector) {
    out_.line(fmt::format("const int d = {};", position(from, TileAxis::col, "r")));
    if (from.cols > program_.value_columns()) inside += fmt::format(" && d < {}", program_.value_columns());
    at += " + d";
  }
  out_.open(fmt::format("if ({})", inside));
  dialect_.store_global(out_, store.output, dtype, at, from.name + "[r]");
  out_.close();
  out_.close();
  if (!condition.empty()) out_.close();
}

}  // namespace attnfuse
