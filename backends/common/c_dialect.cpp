#include "backends/common/c_dialect.h"

#include <fmt/format.h>

#include "backends/common/prelude.h"
#include "backends/common/tile_writer.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

// Elements of partner pairs stay inside one aligned chunk, or move to another whole one.
bool pairs_by_chunk(const Partner& partner, int chunk) {
  switch (partner.pairs) {
    case RotaryPairs::half:
      return partner.count / 2 % chunk == 0;
    case RotaryPairs::interleaved:
      return partner.count % chunk == 0;
  }
  return false;
}

std::string element_pointer(const std::string& type, const std::string& tensor, const std::string& offset) {
  return fmt::format("reinterpret_cast<const {}*>(args.{}_ptr) + {}", type, tensor, offset);
}

}  // namespace

std::string CDialect::type(DType dtype) const {
  switch (dtype) {
    case DType::f16:
      return "af_f16";
    case DType::bf16:
      return "af_bf16";
    case DType::f32:
      return "float";
    case DType::i32:
      return "int";
    case DType::boolean:
      return "unsigned char";
  }
  return "";
}

std::string CDialect::int64(std::string_view value) const { return fmt::format("af_i64({})", value); }

void CDialect::constant_table(SourceWriter& out, const std::string& name,
                              const std::vector<double>& values) const {
  out.open(fmt::format("{} float {}[{}] =", constant_qualifiers(), name, values.size()));
  std::string line;
  for (std::size_t k = 0; k < values.size(); ++k) {
    line += literal(values[k]) + (k + 1 < values.size() ? ", " : "");
    if (line.size() > 90 || k + 1 == values.size()) {
      out.line(line);
      line.clear();
    }
  }
  out.close(";");
}

std::string CDialect::load_global(const std::string& tensor, DType dtype, const std::string& offset) const {
  std::string element =
      fmt::format("reinterpret_cast<const {}*>(args.{}_ptr)[{}]", type(dtype), tensor, offset);
  switch (dtype) {
    case DType::f16:
      return fmt::format("af_from_f16({})", element);
    case DType::bf16:
      return fmt::format("af_from_bf16({})", element);
    case DType::f32:
    case DType::i32:
      return element;
    case DType::boolean:
      return fmt::format("({} != 0)", element);
  }
  return "";
}

void CDialect::store_global(SourceWriter& out, const std::string& tensor, DType dtype,
                            const std::string& offset, const std::string& value) const {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  out.line(fmt::format("reinterpret_cast<{}*>(args.{}_ptr)[{}] = {};", type(dtype), tensor, offset,
                       narrow ? fmt::format("af_to_{}({})", name(dtype), value) : value));
}

void CDialect::load_chunk(SourceWriter& out, const std::string& array, const std::string& tensor, DType dtype,
                          const std::string& offset) const {
  out.line(fmt::format("af_load_chunk_{}({}, {});", name(dtype), array,
                       element_pointer(type(dtype), tensor, offset)));
}

void CDialect::store_chunk(SourceWriter& out, const std::string& array, const std::string& tensor,
                           DType dtype, const std::string& offset) const {
  out.line(fmt::format("af_store_chunk_{}(reinterpret_cast<{}*>(args.{}_ptr) + {}, {});", name(dtype),
                       type(dtype), tensor, offset, array));
}

int CDialect::chunk_elements(const TileWriter& writer, const Channel& channel) const {
  const Tile& tile = writer.tile(channel.tile);
  const int elements = channel.vector_bytes / size_in_bytes(tile.type);
  if (channel.vector_bytes < 16) return 1;
  if (channel.transform.valid()) {
    const Graph& graph = writer.program().expressions;
    for (NodeId id : partners(graph, channel.transform))
      if (!pairs_by_chunk(*as<Partner>(graph.node(id)), elements)) return 1;
  }
  return elements;
}

// x[chunk]: the elements from d0 on of row i or j, transformed, or zeros unless `inside`. With `lanes`, so
// many neighbours hold the row, and their warps are whole.
void CDialect::read_chunk(TileWriter& writer, const Channel& channel, int chunk, const std::string& inside,
                          int lanes) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  const TensorInfo& source = program.expressions.tensor(channel.source);
  const std::string element = std::string(name(source.dtype));
  out.line(fmt::format("float x[{}] = {{}};", chunk));
  out.open(fmt::format("if ({})", inside));
  const std::string row_base =
      fmt::format("const af_i64 row_base = {};",
                  writer.row_offset(source.name, source.role == TensorRole::query ? "i" : "j"));
  out.line(row_base);
  const std::string load = "af_load_chunk_" + element;
  out.line(
      fmt::format("{}(x, {});", load, element_pointer(type(source.dtype), source.name, "row_base + d0")));
  if (channel.transform.valid()) {
    const Graph& graph = program.expressions;
    std::map<NodeId, std::string> inputs;
    if (lanes > 0) {
      out.close();
      const TileWriter::RowPart part{{{"x", "d0"}}, chunk, lanes, true};
      inputs = writer.reductions({channel.transform}, source, "row_base", &part);
      out.open(fmt::format("if ({})", inside));
      out.line(row_base);
    } else {
      inputs = writer.reductions({channel.transform}, source, "row_base");
    }
    int arrays = 0;
    for (NodeId id : partners(graph, channel.transform)) {
      const Partner& partner = *as<Partner>(graph.node(id));
      if (partner.pairs == RotaryPairs::interleaved) {
        inputs[id] = fmt::format("x[d < {} ? e1 ^ 1 : e1]", partner.count);
        continue;
      }
      const std::string array = fmt::format("partner_{}", arrays++);
      out.line(fmt::format("float {}[{}];", array, chunk));
      out.line(fmt::format("{}({}, {});", load, array,
                           element_pointer(type(source.dtype), source.name,
                                           fmt::format("row_base + {}", partner_index(partner, "d0")))));
      inputs[id] = array + "[e1]";
    }
    out.line(fmt::format("float y[{}];", chunk));
    writer.open_loop(fmt::format("for (int e1 = 0; e1 < {}; ++e1)", chunk));
    out.line("const int d = d0 + e1;");
    const Surroundings here{[](const std::string& name) { return name; },
                            [](Axis axis) { return std::string(name(axis)); },
                            [&](NodeId id) { return inputs.contains(id) ? inputs.at(id) : "x[e1]"; }};
    const std::string value = writer.expression(channel.transform, here);
    out.line(fmt::format("y[e1] = {};", value));
    out.close();
    writer.open_loop(fmt::format("for (int e1 = 0; e1 < {}; ++e1)", chunk));
    out.line("x[e1] = y[e1];");
    out.close();
  }
  out.close();
}

// Whole chunks of 16 bytes: plain ones move as they are, transformed ones pass through registers as f32.
void CDialect::put(TileWriter& writer, const Put& put) const {
  const Channel& channel = writer.program().channel(put.channel);
  const int chunk = chunk_elements(writer, channel);
  if (chunk == 1) return writer.put_elements(put);
  SourceWriter& out = writer.out();
  const Tile& to = writer.tile(channel.tile);
  const TileProgram& program = writer.program();
  const TensorInfo& source = program.expressions.tensor(channel.source);
  const int extent = source.role == TensorRole::value ? program.value_columns() : program.info.head_dim;
  const std::string position = source.role == TensorRole::query ? "i" : "j";
  const std::string element = std::string(name(to.type));
  const std::string limit = writer.scalar(put.row_limit), first = writer.scalar(put.first_row);
  const std::string to_pointer =
      fmt::format("{} + {}", writer.array_of(to), TileWriter::shared_index(to, "row", "d0"));
  const bool transposed = std::get<SharedLayout>(to.layout).column_major;
  const int per_row = to.cols / chunk;
  std::string inside = fmt::format("{} < {}", position, limit);
  if (extent < to.cols) inside += fmt::format(" && d0 < {}", extent);
  if (!channel.transform.valid() && channel.kind == CopyKind::async && !transposed) {
    const std::string row_stride = fmt::format("args.{}_stride_s", source.name);
    out.open("");
    if (writer.row_map_of(source.name).kind == RowMap::Kind::pages) {
      writer.open_loop(
          fmt::format("for (int e = thread; e < {}; e += {})", to.rows * per_row, writer.threads()));
      out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", per_row, chunk));
      out.line(fmt::format("const int {} = {} + row;", position, first));
      out.line("af_i64 at = d0;");
      out.line(fmt::format("if ({}) at += {};", inside, writer.row_offset(source.name, position)));
      out.line(fmt::format("af_copy_async({}, {}, {});", to_pointer,
                           element_pointer(type(to.type), source.name, "at"), inside));
      out.close();
      out.close();
      out.line("af_copy_commit();");
      return;
    }
    if (writer.threads() % per_row == 0) {  // each thread keeps its columns
      const int step = writer.threads() / per_row;
      out.line(fmt::format("const int row0 = thread / {0}, d0 = thread % {0} * {1};", per_row, chunk));
      out.line(fmt::format("const {}* from = {};", type(to.type),
                           element_pointer(type(to.type), source.name,
                                           fmt::format("{}_base + af_i64({} + row0) * {} + d0", source.name,
                                                       first, row_stride))));
      writer.open_loop(fmt::format("for (int row = row0; row < {}; row += {}, from += {} * {})", to.rows,
                                   step, step, row_stride));
    } else {
      writer.open_loop(
          fmt::format("for (int e = thread; e < {}; e += {})", to.rows * per_row, writer.threads()));
      out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", per_row, chunk));
      out.line(fmt::format("const {}* from = {};", type(to.type),
                           element_pointer(type(to.type), source.name,
                                           fmt::format("{}_base + af_i64({} + row) * {} + d0", source.name,
                                                       first, row_stride))));
    }
    out.line(fmt::format("const int {} = {} + row;", position, first));
    out.line(fmt::format("af_copy_async({}, from, {});", to_pointer, inside));
    out.close();
    out.close();
    out.line("af_copy_commit();");
    return;
  }
  if (!channel.transform.valid()) out.line(unroll());
  out.open(fmt::format("for (int e = thread; e < {}; e += {})", to.rows * per_row, writer.threads()));
  out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", per_row, chunk));
  out.line(fmt::format("const int {} = {} + row;", position, first));
  const bool shares = channel.transform.valid() && writer.may_share({channel.transform}, per_row, to.rows);
  read_chunk(writer, channel, chunk, inside, shares ? per_row : 0);
  if (transposed) {
    writer.open_loop(fmt::format("for (int e1 = 0; e1 < {}; ++e1)", chunk));
    out.line(fmt::format("{}[{}] = {};", writer.array_of(to), TileWriter::shared_index(to, "row", "d0 + e1"),
                         to.type == DType::f32 ? "x[e1]" : fmt::format("af_to_{}(x[e1])", element)));
    out.close();
  } else {
    out.line(fmt::format("af_store_chunk_{}({}, x);", element, to_pointer));
  }
  out.close();
}

// Two neighbouring columns in one thread go out as one access where alignment allows.
void CDialect::store(TileWriter& writer, const Store& store) const {
  const Tile& from = writer.tile(store.from);
  const auto& layout = std::get<FragmentLayout>(from.layout);
  const TileProgram& program = writer.program();
  const DType dtype = program.info.dtype;
  const bool pairs = from.cols > 1 && !layout.registers.empty() &&
                     layout.registers[0] == Digit{2, TileAxis::col, 1} && dtype != DType::f32 &&
                     program.schedule.vector_bytes >= 4;
  if (!pairs) return writer.store_elements(store);
  SourceWriter& out = writer.out();
  writer.open_loop(fmt::format("for (int r = 0; r < {}; r += 2)", layout.register_count()));
  out.line(fmt::format("const int i = {} + {}, d = {};", writer.scalar(store.first_row),
                       writer.position(from, TileAxis::row, "r"), writer.position(from, TileAxis::col, "r")));
  std::string inside = fmt::format("i < {}", writer.scalar(store.row_limit));
  if (from.cols > program.value_columns()) inside += fmt::format(" && d < {}", program.value_columns());
  out.open(fmt::format("if ({})", inside));
  out.line(
      fmt::format("*reinterpret_cast<af_u32*>(reinterpret_cast<{}*>(args.{}_ptr) + {}_base + af_i64(i) * "
                  "args.{}_stride_s + d) = af_pack_{}({}[r], {}[r + 1]);",
                  type(dtype), store.output, store.output, store.output, name(dtype), from.name, from.name));
  out.close();
  out.close();
}

void CDialect::begin_file(TileWriter& writer, std::string_view types, std::string_view functions) const {
  SourceWriter& out = writer.out();
  header_comment(writer);
  out.blank();
  out.raw(types);
  out.raw(common_prelude());
  out.raw(prelude_of(writer.program().expressions, roll()));
  out.raw(functions);
  out.blank();
  for (const TensorInfo& tensor : writer.program().expressions.tensors())
    if (tensor.role == TensorRole::constant) constant_table(out, tensor.name, tensor.values);
  out.open("struct Arguments");
  argument_fields(writer, argument_pointer(), "af_i64");
  out.close(";");
  out.blank();
}

int CDialect::shared_tiles(TileWriter& writer, const std::string& memory) const {
  int offset = 0;
  for (const Tile& tile : writer.program().tiles) {
    if (tile.space != Space::shared) continue;
    writer.out().line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>({2} + {3});  // {4} x {5}",
                                  type(tile.type), tile.name, memory, offset, tile.rows, tile.cols));
    offset += shared_bytes(tile);
  }
  writer.out().line(
      fmt::format("int* const has_nonfinite = reinterpret_cast<int*>({} + {});", memory, offset));
  return offset + kFlagBytes;
}

void header_comment(TileWriter& writer) {
  const TileProgram& program = writer.program();
  SourceWriter& out = writer.out();
  const ProgramInfo& info = program.info;
  out.comment(fmt::format("{}: {}. Generated by AttnFuse; edit the program, not this file.", program.name,
                          program.about));
  out.comment(fmt::format("heads {}, kv_heads {}, head_dim {}, v_head_dim {}, {}", info.heads, info.kv_heads,
                          info.head_dim, info.v_head_dim, name(info.dtype)));
  const Schedule& schedule = program.schedule;
  const std::string tile = program.rows
                               ? fmt::format("{} rows x {} heads", schedule.block_q, program.rows->heads)
                               : fmt::format("{} query rows x {} keys", schedule.block_q, schedule.block_k);
  out.comment(fmt::format("target {}, {} schedule ({}): {}, {} warps of {}", program.target.name,
                          schedule.name, schedule.source, tile, schedule.warps, program.target.warp_size));
  for (const std::string& line : program.description) out.comment(line);
}

void argument_fields(TileWriter& writer, const std::string& pointer_type, const std::string& stride_type) {
  for (const ParamField& field : writer.program().params) {
    const char* comment = "";
    std::string type;
    switch (field.kind) {
      case ParamField::Kind::pointer:
        type = pointer_type;
        break;
      case ParamField::Kind::stride:
        type = stride_type;
        comment = "  // elements";
        break;
      case ParamField::Kind::size:
      case ParamField::Kind::shares:
        type = "int";
        break;
      case ParamField::Kind::tensor_map:
        type = "af_tensor_map";
        break;
      case ParamField::Kind::counter:
        type = "af_u32*";
        break;
    }
    writer.out().line(fmt::format("{} {};{}", type, field.name, comment));
  }
}

}  // namespace attnfuse
