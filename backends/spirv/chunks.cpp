// Rows of a tensor into a shared tile and rows of the output from one, 16 bytes at a time.
#include <fmt/format.h>

#include <map>

#include "backends/common/tile_writer.h"
#include "backends/spirv/dialect.h"
#include "ir/algorithm.h"

namespace attnfuse::spirv {
namespace {

constexpr int kChunkBytes = 16;

// Elements of partner pairs stay inside one aligned chunk, or move to another whole one.
bool moves_chunks(const Partner& partner, int chunk) {
  switch (partner.pairs) {
    case RotaryPairs::half:
      return partner.count / 2 % chunk == 0;
    case RotaryPairs::interleaved:
      return partner.count % chunk == 0;
  }
  return false;
}

}  // namespace

int GlslDialect::chunk_elements(const TileWriter& writer, const Channel& channel) const {
  const Tile& tile = writer.tile(channel.tile);
  const int elements = kChunkBytes / size_in_bytes(tile.type);
  if (channel.vector_bytes < kChunkBytes || std::get<SharedLayout>(tile.layout).column_major) return 1;
  // Where nothing else is wide either, one transformed element at a time keeps kernels small.
  if (channel.transform.valid() && !program_.unit.opaque) return 1;
  if (channel.transform.valid() && reduces(program_.expressions, channel.transform))
    return 1;  // whole rows to a thread
  if (channel.transform.valid())
    for (NodeId id : partners(program_.expressions, channel.transform))
      if (!moves_chunks(*as<Partner>(program_.expressions.node(id)), elements)) return 1;
  return elements;
}

void GlslDialect::load_chunk(SourceWriter& out, const std::string& array, const std::string& tensor,
                             DType dtype, const std::string& offset) const {
  out.line(fmt::format("af_unpack_chunk_{}({}, af_load_chunk(args.{}_ptr, ({}) * {}));", name(dtype), array,
                       tensor, offset, size_in_bytes(dtype)));
}

void GlslDialect::store_chunk(SourceWriter& out, const std::string& array, const std::string& tensor,
                              DType dtype, const std::string& offset) const {
  out.line(fmt::format("af_store_chunk(args.{}_ptr, ({}) * {}, af_pack_chunk_{}({}));", tensor, offset,
                       size_in_bytes(dtype), name(dtype), array));
}

void GlslDialect::put(TileWriter& writer, const Put& put) const {
  const Channel& channel = program_.channel(put.channel);
  const int chunk = chunk_elements(writer, channel);
  if (chunk == 1) return writer.put_elements(put);
  SourceWriter& out = writer.out();
  const Tile& to = writer.tile(channel.tile);
  const TensorInfo& source = program_.expressions.tensor(channel.source);
  const int extent = source.role == TensorRole::value ? program_.value_columns() : program_.info.head_dim;
  const std::string position = source.role == TensorRole::query ? "i" : "j";
  const std::string first = writer.scalar(put.first_row), limit = writer.scalar(put.row_limit);
  const int per_row = to.cols / chunk, chunks = to.rows * per_row, threads = program_.threads();
  // With a fixed number of rounds, the loads of all rounds are in flight together.
  const bool fixed = program_.unit.opaque && !channel.transform.valid() && chunks % threads == 0;
  if (fixed) {
    writer.open_loop(fmt::format("for (int n = 0; n < {}; ++n)", chunks / threads));
    out.line(fmt::format("const int e = thread + n * {};", threads));
  } else {
    out.open(fmt::format("for (int e = thread; e < {}; e += {})", chunks, threads));
  }
  out.line(fmt::format("const int row = e / {0}, d0 = e % {0} * {1};", per_row, chunk));
  out.line(fmt::format("const int {} = {} + row;", position, first));
  const std::string inside =
      fmt::format("{} < {}{}", position, limit, extent < to.cols ? fmt::format(" && d0 < {}", extent) : "");
  out.line("uvec4 chunk = uvec4(0);");
  out.open(fmt::format("if ({})", inside));
  out.line(fmt::format("const af_i64 row_base = {};", writer.row_offset(source.name, position)));
  const auto load = [&](const std::string& d) {
    return fmt::format("af_load_chunk(args.{}_ptr, (row_base + {}) * {})", source.name, d,
                       size_in_bytes(source.dtype));
  };
  out.line(fmt::format("chunk = {};", load("d0")));
  if (channel.transform.valid()) transform_chunk(writer, channel, chunk, load);
  out.close();
  out.line(fmt::format("const int at = {};", TileWriter::shared_index(to, "row", "d0")));
  out.line(fmt::format("af_put_chunk_{}({}, at, chunk)", name(to.type), to.name));
  out.close();
}

// `chunk`, transformed element by element.
void GlslDialect::transform_chunk(TileWriter& writer, const Channel& channel, int elements,
                                  const std::function<std::string(const std::string& d)>& load) const {
  SourceWriter& out = writer.out();
  const Graph& graph = program_.expressions;
  const DType type = graph.tensor(channel.source).dtype;
  const auto unpack = [&](const std::string& array, const std::string& packed) {
    out.line(fmt::format("float {}[{}];", array, elements));
    out.line(fmt::format("af_unpack_chunk_{}({}, {});", name(type), array, packed));
  };
  unpack("x", "chunk");
  std::map<NodeId, std::string> inputs;
  int arrays = 0;
  for (NodeId id : partners(graph, channel.transform)) {
    const Partner& partner = *as<Partner>(graph.node(id));
    if (partner.pairs == RotaryPairs::interleaved) {
      inputs[id] = fmt::format("x[d < {} ? e1 ^ 1 : e1]", partner.count);
      continue;
    }
    const std::string array = fmt::format("partner_{}", arrays++);
    unpack(array, load(partner_index(partner, "d0")));
    inputs[id] = array + "[e1]";
  }
  out.line(fmt::format("float y[{}];", elements));
  writer.open_loop(fmt::format("for (int e1 = 0; e1 < {}; ++e1)", elements));
  out.line("const int d = d0 + e1;");
  const Surroundings here{[](const std::string& scalar) { return scalar; },
                          [](Axis axis) { return std::string(name(axis)); },
                          [&](NodeId id) { return inputs.contains(id) ? inputs.at(id) : "x[e1]"; }};
  const std::string value = writer.expression(channel.transform, here);
  out.line(fmt::format("y[e1] = {};", value));
  out.close();
  out.line(fmt::format("chunk = af_pack_chunk_{}(y);", name(type)));
}

// Registers of the output pass through the queries' tile, which nobody reads any more: one wide store in a
// loop instead of a guarded store for every register.
void GlslDialect::store(TileWriter& writer, const Store& store) const {
  const Tile& from = writer.tile(store.from);
  const Tile* via = nullptr;
  for (const Channel& channel : program_.channels)
    if (program_.expressions.tensor(channel.source).role == TensorRole::query)
      via = &writer.tile(channel.tile);
  if (from.cols == 1 || via == nullptr || via->cols < from.cols) return writer.store_elements(store);
  SourceWriter& out = writer.out();
  const DType type = program_.info.dtype;
  const int cols = program_.value_columns();
  const int chunk = program_.schedule.vector_bytes < kChunkBytes ? 1 : kChunkBytes / size_in_bytes(type);
  out.line(barrier(Scope::workgroup));
  writer.open_registers(std::get<FragmentLayout>(from.layout).register_count());
  const std::string place = TileWriter::shared_index(*via, writer.position(from, TileAxis::row, "r"),
                                                     writer.position(from, TileAxis::col, "r"));
  out.line(fmt::format("{}[{}] = af_to_{}({}[r]);", via->name, place, name(type), from.name));
  out.close();
  out.line(barrier(Scope::workgroup));
  out.open(
      fmt::format("for (int e = thread; e < {}; e += {})", from.rows * cols / chunk, program_.threads()));
  out.line(fmt::format("const int row = e / {0}, d = e % {0} * {1};", cols / chunk, chunk));
  out.line(fmt::format("const int i = {} + row, at = {};", writer.scalar(store.first_row),
                       TileWriter::shared_index(*via, "row", "d")));
  const std::string to = fmt::format("{} + {} * args.{}_stride_s + d", TileWriter::base_of(store.output),
                                     int64("i"), store.output);
  out.open(fmt::format("if (i < {})", writer.scalar(store.row_limit)));
  if (chunk == 1) {
    const std::string element = fmt::format("{}[at]", via->name);
    store_global(out, store.output, type, to,
                 type == DType::f32 ? element : fmt::format("af_from_{}({})", name(type), element));
  } else {
    out.line("uvec4 chunk;");
    out.line(fmt::format("af_get_chunk_{}({}, at, chunk)", name(type), via->name));
    out.line(
        fmt::format("af_store_chunk(args.{}_ptr, ({}) * {}, chunk);", store.output, to, size_in_bytes(type)));
  }
  out.close();
  out.close();
}

}  // namespace attnfuse::spirv
