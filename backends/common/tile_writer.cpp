#include "backends/common/tile_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"

namespace attnfuse {

const char* c_type(ValueType type) {
  switch (type) {
    case ValueType::f32:
      return "float";
    case ValueType::i32:
      return "int";
    case ValueType::boolean:
      return "bool";
  }
  return "";
}

std::string combine(ReduceOp op, const std::string& a, const std::string& b) {
  return op == ReduceOp::sum ? fmt::format("{} + {}", a, b) : fmt::format("af_{}({}, {})", name(op), a, b);
}

namespace {
std::string grouped(const std::string& text, ReduceOp op) {
  return op == ReduceOp::sum ? "(" + text + ")" : text;
}
}  // namespace

std::string TileWriter::write() {
  dialect_.begin(*this);
  if (program_.rows)
    row_scalars();
  else if (program_.schedule.groups == 0)
    workgroup_scalars();
  else
    size_scalars();
  body(program_.body);
  dialect_.end(*this);
  return out_.text();
}

void TileWriter::size_scalars() {
  const Storage& storage = program_.info.storage;
  const int block_q = program_.schedule.block_q;
  const char* const tiles = program_.rows ? "tiles" : "q_tiles";
  if (storage.ragged) {
    const std::string_view total = program_.has_key_rows() ? "total_k" : "total_q";
    out_.line(fmt::format("const int batch = args.batch, {0} = args.{0};", total));
    out_.line("const int longest_q = args.sq, longest_k = args.skv;");
    out_.comment("enough for any division of the rows into sequences");
    out_.line(fmt::format("const int {} = {} / {} + batch;", tiles, total, block_q));
    return;
  }
  out_.line(fmt::format("const int batch = args.batch, sq = args.sq, {} = args.skv;",
                        storage.is_plain() ? "skv" : "longest_k"));
  if (program_.shares) out_.line("const int shares = args.shares;");
  const Size rows = program_.rows ? program_.rows->size : Size::sq;
  out_.line(fmt::format("const int {} = ({} + {}) / {};", tiles, name(rows), block_q - 1, block_q));
}

// Which tile this workgroup computes, where its heads start, and where each thread's rows and columns are.
void TileWriter::workgroup_scalars() {
  const int heads = program_.head_groups();
  size_scalars();
  if (program_.info.storage.ragged) {
    out_.line(fmt::format("if (block >= {} * q_tiles) return;", heads));
    out_.comment("longest rows first");
    out_.line("const int place = q_tiles - 1 - block % q_tiles;");
    define_head("block / q_tiles");
    body(program_.sequence.find);
    body(program_.sequence.measure);
    out_.line("if (q_begin < 0 || q_begin >= sq) return;");
  } else {
    out_.line(fmt::format("if (block >= batch * {} * q_tiles) return;", heads));
    out_.comment("longest rows first");
    out_.line(
        fmt::format("const int q_begin = (q_tiles - 1 - block % q_tiles) * {};", program_.schedule.block_q));
    define_head(fmt::format("block / q_tiles % {}", heads));
    define_entry(fmt::format("block / q_tiles / {}", heads));
    body(program_.sequence.measure);
  }
  head_offsets();
  std::vector<const Tile*> tiles;
  for (const Tile& tile : program_.tiles) tiles.push_back(&tile);
  declare_tiles(tiles);
}

void TileWriter::define_head(const std::string& at) {
  const int parts = program_.value_parts(), columns = program_.value_columns();
  if (parts == 1) return out_.line(fmt::format("const int h = {};", at));
  out_.comment(fmt::format("one of {} workgroups for a tile: {} columns of the values", parts, columns));
  out_.line(fmt::format("const int head_part = {};", at));
  out_.line(fmt::format("const int h = head_part / {0}, value_begin = af_imin(head_part % {0} * {1}, {2});",
                        parts, columns, program_.info.v_head_dim - columns));
}

// The batch entry; that of outputs, where shares of keys have their own.
void TileWriter::define_entry(const std::string& at) {
  if (!program_.shares) return out_.line(fmt::format("const int b = {};", at));
  out_.line(fmt::format("const int entry_b = {};", at));
  out_.line("const int b = entry_b / shares, share = entry_b % shares;");
}

std::string TileWriter::entry_of_output() const { return program_.shares ? "entry_b" : "b"; }

void TileWriter::head_offsets(const std::set<std::string>* tensors) {
  const ProgramInfo& info = program_.info;
  out_.line(info.heads == info.kv_heads ? "const int g = h;"
                                        : fmt::format("const int g = h / {};", info.heads / info.kv_heads));
  for (const Channel& channel : program_.channels) {
    if (!channel.tile.valid()) continue;
    const TensorInfo& tensor = program_.expressions.tensor(channel.source);
    if (tensors == nullptr || tensors->count(tensor.name) != 0)
      define_base(tensor.name, tensor.role == TensorRole::query ? "h" : "g");
  }
}

void TileWriter::declare_tiles(const std::vector<const Tile*>& tiles) {
  lane_parts_.clear();
  for (const Tile* tile : tiles) {
    const auto* layout = std::get_if<FragmentLayout>(&tile->layout);
    if (layout == nullptr) continue;
    for (TileAxis axis : {TileAxis::row, TileAxis::col}) {
      const std::string text =
          plus(digit_sum(layout->lanes, axis, "lane"), digit_sum(layout->warps, axis, "warp"));
      if (text == "0" || lane_parts_.contains(text)) continue;
      std::string name = axis == TileAxis::row ? "thread_row" : "thread_col";
      if (lane_parts_.size() >= 2) name += "_" + tile->name;
      out_.line(fmt::format("const int {} = {};", name, text));
      lane_parts_[text] = name;
    }
  }
  for (const Tile* tile : tiles)
    if (tile->space == Space::registers) dialect_.declare(*this, *tile);
}

void TileWriter::define_base(const std::string& tensor, const char* head) {
  const bool is_output =
      std::ranges::any_of(program_.outputs, [&](const OutputInfo& output) { return output.name == tensor; });
  const RowMap map = row_map_of(tensor);
  std::string of_head = fmt::format("{} * args.{}_stride_h", dialect_.int64(head), tensor);
  if (program_.value_parts() > 1 && has_value_columns(tensor)) of_head += " + value_begin";
  switch (map.kind) {
    case RowMap::Kind::entry:
      return out_.line(fmt::format("const af_i64 {} = {} * args.{}_stride_b + {};", base_of(tensor),
                                   dialect_.int64(is_output ? entry_of_output() : "b"), tensor, of_head));
    case RowMap::Kind::run:
      return out_.line(fmt::format("const af_i64 {} = {} * args.{}_stride_s + {};", base_of(tensor),
                                   dialect_.int64(map.first), tensor, of_head));
    case RowMap::Kind::pages:
      return out_.line(fmt::format("const af_i64 {} = {};", base_of(tensor), of_head));
  }
}

bool TileWriter::has_value_columns(const std::string& tensor) const {
  for (const OutputInfo& output : program_.outputs)
    if (output.name == tensor) return output.has_dim;
  const TensorId id = program_.expressions.find_tensor(tensor);
  return id.valid() && program_.expressions.tensor(id).role == TensorRole::value;
}

RowMap TileWriter::row_map_of(const std::string& tensor) const {
  const TensorId id = program_.expressions.find_tensor(tensor);
  const TensorRole role = id.valid() ? program_.expressions.tensor(id).role : TensorRole::query;
  return row_map(program_.info.storage, row_side(role));
}

std::string TileWriter::row_offset(const std::string& tensor, const std::string& position) const {
  const RowMap map = row_map_of(tensor);
  if (map.kind != RowMap::Kind::pages)
    return fmt::format("{} + {} * args.{}_stride_s", base_of(tensor), dialect_.int64(position), tensor);
  const std::string row = position.find(' ') == std::string::npos ? position : "(" + position + ")";
  return fmt::format("{0} + {1} * args.{2}_stride_b + {3} * args.{2}_stride_s", base_of(tensor),
                     dialect_.int64(page_of(row, map.page_size)), tensor,
                     dialect_.int64(fmt::format("{} % {}", row, map.page_size)));
}

std::string TileWriter::page_of(const std::string& position, int page_size) const {
  const std::string entry =
      fmt::format("{0} * args.{1}_stride_0 + {2} * args.{1}_stride_1", dialect_.int64("b"), kPageTable,
                  dialect_.int64(fmt::format("{} / {}", position, page_size)));
  return dialect_.load_global(std::string(kPageTable), DType::i32, entry);
}

// Where an output's head starts is computed where it is needed, so that it holds no registers during the
// loop.
void TileWriter::write(const Store& s) {
  define_base(s.output, "h");
  dialect_.store(*this, s);
}

void TileWriter::write(const BulkStore& s) {
  if (s.row_limit.valid()) define_base(s.output, "h");
  dialect_.bulk_store(*this, s);
}

void TileWriter::body(const Body& statements) {
  for (const Statement& statement : statements) {
    if (!std::holds_alternative<Let>(statement.kind) && !std::holds_alternative<Barrier>(statement.kind))
      out_.comment(headline(program_, statement));
    std::visit([&](const auto& s) { write(s); }, statement.kind);
  }
}

void TileWriter::write(const Let& s) {
  const std::string value = scalar(s.value);
  const ValueType type = program_.expressions.node(s.value).type;
  out_.line(fmt::format("{}{} {} = {};", s.changes ? "" : "const ", c_type(type), s.name, value));
}

std::string TileWriter::element_of(const std::string& name, const Tile& over, const std::string& reg) {
  for (const Tile& tile : program_.tiles) {
    if (tile.name != name) continue;
    // Tiles of the same order of registers: one may have less columns.
    if (tile.rows != 1 && tile.cols != 1) return fmt::format("{}[{}]", name, reg);
    return fmt::format("{}[{}]", name,
                       vector_index(over, tile.cols == 1 ? TileAxis::row : TileAxis::col, reg));
  }
  return name;  // a scalar
}

// A coordinate is the sum of what the thread brings ("j_at", once) and what the register brings ("j_step", a
// constant when the loop is unrolled). Expressions may name either. Opens a scope if there is any.
bool TileWriter::open_coordinates(const Tile& tile, NodeId value) {
  bool opened = false;
  for (const auto& [dim, axis] : {std::pair{tile.row, TileAxis::row}, std::pair{tile.col, TileAxis::col}}) {
    if ((axis == TileAxis::row ? tile.rows : tile.cols) == 1 || !reads_coordinate(value, dim.axis)) continue;
    if (!opened) out_.open("");
    opened = true;
    const std::string thread = thread_position(tile, axis);
    const std::string at = dim.base.empty() ? thread : thread == "0" ? dim.base : dim.base + " + " + thread;
    out_.line(fmt::format("const int {}_at = {};", name(dim.axis), dialect_.anchor(at)));
  }
  return opened;
}

// Where a register's value is an operation of the same register's, times a constant, and nothing else.
std::optional<TileWriter::PairCall> TileWriter::pair_call(const Map& s) const {
  const Graph& graph = program_.expressions;
  const Tile& to = tile(s.to);
  const auto* apply = as<Apply>(graph.node(s.value));
  if (apply == nullptr || info(apply->op).arity != 1 || to.type != DType::f32) return {};
  NodeId operand = graph.operand(s.value, 0);
  double factor = 1;
  if (const auto* product = as<Apply>(graph.node(operand));
      product != nullptr && product->op == ScalarOp::mul)
    if (const auto* constant = as<Constant>(graph.node(graph.operand(operand, 1)))) {
      factor = constant->value;
      operand = graph.operand(operand, 0);
    }
  const auto* variable = as<Variable>(graph.node(operand));
  const int count = std::get<FragmentLayout>(to.layout).register_count();
  const bool is_even = count * s.part.begin / 4 % 2 == 0 && count * s.part.end / 4 % 2 == 0;
  if (variable == nullptr || variable->name != to.name || !is_even) return {};
  const std::string function = dialect_.pair_function(program_, apply->op);
  if (function.empty()) return {};
  return PairCall{function, literal(factor)};
}

std::string TileWriter::value_at(NodeId value, const Tile& over, const std::string& reg) {
  for (const auto& [dim, axis] : {std::pair{over.row, TileAxis::row}, std::pair{over.col, TileAxis::col}}) {
    if ((axis == TileAxis::row ? over.rows : over.cols) == 1 || !reads_coordinate(value, dim.axis)) continue;
    const std::string_view n = name(dim.axis);
    const std::string step = register_position(over, axis, reg);
    if (reads_variable(value, fmt::format("{}_step", n)))
      out_.line(fmt::format("const int {}_step = {};", n, step));
    if (reads_index(value, dim.axis))
      out_.line(step == "0" ? fmt::format("const int {0} = {0}_at;", n)
                            : fmt::format("const int {0} = {0}_at + {1};", n, step));
  }
  return expression(value, {[&](const std::string& variable) { return element_of(variable, over, reg); },
                            [](Axis axis) { return std::string(name(axis)); },
                            {}});
}

void TileWriter::write(const Map& s) {
  const Tile& to = tile(s.to);
  const int count = std::get<FragmentLayout>(to.layout).register_count();
  const int first = count * s.part.begin / 4, end = count * s.part.end / 4;
  if (const auto call = pair_call(s)) {
    open_loop(fmt::format("for (int r = {}; r < {}; r += 2)", first, end));
    out_.line(fmt::format("{0}({1}[r], {1}[r + 1], {2});", call->function, to.name, call->factor));
    out_.close();
    return;
  }
  const bool has_coordinates = open_coordinates(to, s.value);
  if (to.type == DType::f16 || to.type == DType::bf16) {  // two to a register
    open_loop(fmt::format("for (int r = {}; r < {}; r += 2)", first, end));
    std::string low, high;
    if (has_coordinates) {
      out_.line("float pair[2];");
      open_registers(2, "half");
      const std::string value = value_at(s.value, to, "(r + half)");
      out_.line(fmt::format("pair[half] = {};", value));
      out_.close();
      low = "pair[0]", high = "pair[1]";
    } else {
      low = value_at(s.value, to, "r"), high = value_at(s.value, to, "(r + 1)");
    }
    out_.line(fmt::format("{}[r / 2] = af_pack_{}({}, {});", to.name, name(to.type), low, high));
  } else {
    open_loop(fmt::format("for (int r = {}; r < {}; ++r)", first, end));
    const std::string value = value_at(s.value, to, "r");
    out_.line(fmt::format("{}[r] = {};", to.name, value));
  }
  out_.close();
  if (has_coordinates) out_.close();
}

void TileWriter::combine_lanes(const Tile& vector, ReduceOp op, const FragmentLayout& layout) {
  const int count = std::get<FragmentLayout>(vector.layout).register_count();
  for (int distance : exchange_distances(layout, TileAxis::row)) {
    open_registers(count);
    const std::string own = vector.name + "[r]";
    out_.line(fmt::format("{} = {};", own, combine(op, own, dialect_.exchange(own, distance))));
    out_.close();
  }
}

// Neighbours in a row are combined first: half as many steps depend on the one before.
void TileWriter::write(const RowReduce& s) {
  const Tile &to = tile(s.to), &from = tile(s.from);
  const auto& layout = std::get<FragmentLayout>(from.layout);
  if (!s.accumulate) dialect_.fill(*this, Fill{s.to, identity(s.op)});
  const bool pairs =
      !s.value.valid() && !layout.registers.empty() && layout.registers[0] == Digit{2, TileAxis::col, 1};
  const std::string own = fmt::format("{}[{}]", to.name, vector_index(from, TileAxis::row, "r"));
  const bool has_coordinates = s.value.valid() && open_coordinates(from, s.value);
  if (pairs)
    open_loop(fmt::format("for (int r = 0; r < {}; r += 2)", layout.register_count()));
  else
    open_registers(layout.register_count());
  const std::string first = s.value.valid() ? value_at(s.value, from, "r") : from.name + "[r]";
  const std::string term = pairs ? combine(s.op, first, from.name + "[r + 1]") : first;
  out_.line(fmt::format("{} = {};", own,
                        combine(s.op, own, pairs || s.value.valid() ? grouped(term, s.op) : term)));
  out_.close();
  if (has_coordinates) out_.close();
  if (s.across_lanes) combine_lanes(to, s.op, layout);
}

void TileWriter::write(const LaneReduce& s) {
  combine_lanes(tile(s.tile), s.op, std::get<FragmentLayout>(tile(s.of).layout));
}

void TileWriter::scrub_elements(const Scrub& s) {
  const Tile& t = tile(s.tile);
  out_.open(fmt::format("for (int e = thread; e < {}; e += {})", t.rows * t.cols, threads()));
  const int fast = std::get<SharedLayout>(t.layout).column_major ? t.rows : t.cols;
  const std::string slow_text = fmt::format("e / {}", fast), fast_text = fmt::format("e % {}", fast);
  const bool major = std::get<SharedLayout>(t.layout).column_major;
  out_.line(fmt::format("const int at = {};",
                        shared_index(t, major ? fast_text : slow_text, major ? slow_text : fast_text)));
  const std::string element = fmt::format("{}[at]", array_of(t));
  out_.open(fmt::format("if (!af_is_finite_{}({}))", name(t.type), element));
  out_.line(fmt::format("{} = {}(0.0f);", element, "af_to_" + std::string(name(t.type))));
  out_.line(dialect_.raise(s.flag));
  out_.close();
  out_.close();
}

void TileWriter::write(const If& s) {
  const std::string condition = scalar(s.condition);
  out_.open(fmt::format("if ({})", condition));
  body(s.body);
  out_.close();
}

void TileWriter::write(const Assign& s) {
  const std::string value = scalar(s.value);
  out_.line(fmt::format("{} = {};", s.name, value));
}

// The condition may need statements of its own, so it is tested inside.
void TileWriter::write(const While& s) {
  out_.open("for (;;)");
  const std::string condition = scalar(s.condition);
  out_.line(fmt::format("if (!({})) break;", condition));
  body(s.body);
  out_.close();
}

void TileWriter::write(const TileLoop& s) {
  const std::string end = scalar(s.end);
  const auto advance = [&] {
    if (!s.skip.valid()) return;
    out_.open(fmt::format("for (; {} < {}; ++{})", s.next, end, s.next));
    const std::string skip = scalar(s.skip);
    out_.line(fmt::format("if (!({})) break;", skip));
    out_.close();
  };
  out_.line(fmt::format("int {} = {};", s.next, scalar(s.begin)));
  advance();
  out_.open(fmt::format("if ({} < {})", s.next, end));
  body(s.before);
  out_.close();
  out_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0} = {1})", s.variable, s.next, end));
  out_.line(fmt::format("{} = {} + 1;", s.next, s.variable));
  advance();
  body(s.body);
  out_.close();
}

}  // namespace attnfuse
