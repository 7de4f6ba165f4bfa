// Rows of a tensor through an expression to rows of an output, straight from memory to memory. A thread takes
// one chunk of a row, or the two that pair with each other, for all heads of the workgroup: what they have in
// common (sines and cosines of a position) is computed once, and the loads of all heads are in flight
// together.
#include <fmt/format.h>

#include <algorithm>

#include "backends/common/tile_writer.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

class RowMapper {
 public:
  RowMapper(TileWriter& writer, const MapRows& map)
      : writer_(writer),
        out_(writer.out()),
        map_(map),
        columns_(map.columns),
        graph_(writer.program().expressions),
        source_(graph_.tensor(map.source)) {
    // Elements that one access moves; 1 where a partner would leave the chunk.
    chunk_ =
        writer.program().schedule.vector_bytes < kChunkBytes ? 1 : kChunkBytes / size_in_bytes(source_.dtype);
    for (NodeId id : cone(graph_, {columns_.first}))
      if (as<Partner>(graph_.node(id)) != nullptr) chunk_ = 1;
    const int reach = columns_.partner > 1 ? columns_.partner : 0;
    if (columns_.begin % chunk_ != 0 || columns_.end % chunk_ != 0 || reach % chunk_ != 0) chunk_ = 1;
    step_ = columns_.partner == 1 ? 2 : 1;
    width_ = std::max(chunk_, step_);
    stretches_ = columns_.partner > 1 ? 2 : 1;
    units_ = (columns_.end - columns_.begin) / width_;
    is_query_ = source_.role == TensorRole::query;
    const ProgramInfo& info = writer.program().info;
    const int extent = source_.role == TensorRole::value ? info.v_head_dim : info.head_dim;
    const bool is_whole = columns_.begin == 0 && stretches_ * (columns_.end - columns_.begin) == extent;
    const NodeId last = columns_.second.valid() ? columns_.second : columns_.first;
    shares_ = is_whole && writer.may_share({columns_.first, last}, units_, writer.program().schedule.block_q);
    row_ = is_query_ ? "i" : "j";
    head_ = is_query_ ? "h" : "g";
  }

  void write() {
    const TileProgram& program = writer_.program();
    out_.open(fmt::format("for (int e = thread; e < {}; e += {})", program.schedule.block_q * units_,
                          program.threads()));
    const std::string row = fmt::format("{} + e / {}", writer_.scalar(map_.first_row), units_);
    const std::string limit = writer_.scalar(map_.row_limit);
    if (shares_) {  // lanes past the end stay for the exchange
      out_.line(fmt::format("const int place = {};", row));
      out_.line(fmt::format("const int {} = af_imin(place, {} - 1);", row_, limit));
    } else {
      out_.line(fmt::format("const int {} = {};", row_, row));
      out_.line(fmt::format("if ({} >= {}) continue;", row_, limit));
    }
    const std::string first = columns_.begin == 0 ? "" : fmt::format("{} + ", columns_.begin);
    out_.line(fmt::format("const int d0 = {}e % {} * {};", first, units_, width_));
    share();
    for (int s = 0; s < stretches_; ++s)
      out_.line(fmt::format("float {}[{}][{}];", kArrays[s], program.rows->heads, width_));
    open_heads({source_.name});
    for (int s = 0; s < stretches_; ++s) load(s);
    out_.close();
    open_heads({source_.name, map_.output});
    const NodeId last = columns_.second.valid() ? columns_.second : columns_.first;
    const TileWriter::RowPart part = own_part();
    reduced_ =
        writer_.reductions({columns_.first, last}, source_, source_.name + "_row", shares_ ? &part : nullptr);
    compute();
    if (shares_) out_.open(fmt::format("if (place < {})", limit));
    for (int s = 0; s < stretches_; ++s) store(s);
    if (shares_) out_.close();
    out_.close();
    out_.close();
  }

 private:
  static constexpr int kChunkBytes = 16;
  static constexpr const char* kArrays[] = {"x", "y"};

  int pairs() const { return width_ / step_; }

  // The row's elements that this thread holds.
  TileWriter::RowPart own_part() const {
    TileWriter::RowPart part{{{"x[n]", "d0"}}, width_, units_};
    if (stretches_ == 2) part.columns.push_back({"y[n]", fmt::format("d0 + {}", columns_.partner)});
    return part;
  }

  // for each d of this thread: p counts them.
  void open_pairs() {
    writer_.open_registers(pairs(), "p");
    out_.line(step_ == 1 ? "const int d = d0 + p;" : "const int d = d0 + 2 * p;");
  }

  void share() {
    if (columns_.shared.empty()) return;
    for (const Let& let : columns_.shared)
      out_.line(fmt::format("{} {}[{}];", c_type(graph_.node(let.value).type), let.name, pairs()));
    open_pairs();
    for (const Let& let : columns_.shared) {
      const std::string value = text(let.value);
      out_.line(fmt::format("{}[p] = {};", let.name, value));
    }
    out_.close();
  }

  // for each head of this workgroup: n counts them; with where its row starts in these tensors.
  void open_heads(const std::vector<std::string>& tensors) {
    const TileProgram& program = writer_.program();
    const ProgramInfo& info = program.info;
    const int heads = program.rows->heads, all = program.rows->all_heads;
    writer_.open_registers(heads, "n");
    out_.line(fmt::format("const int {} = head_begin + n;", head_));
    if (all % heads != 0) out_.line(fmt::format("if ({} >= {}) continue;", head_, all));
    if (is_query_) out_.line(fmt::format("const int g = h / {};", info.heads / info.kv_heads));
    const Dialect& dialect = writer_.dialect();
    const RowMap map = row_map(info.storage, row_side(source_.role));
    for (const std::string& tensor : tensors) {
      const bool run = map.kind == RowMap::Kind::run;
      const std::string row = run ? fmt::format("{} + {}", map.first, row_) : row_;
      const std::string entry =
          run ? "" : fmt::format("{} * args.{}_stride_b + ", dialect.int64("b"), tensor);
      out_.line(fmt::format("const af_i64 {0}_row = {1}{2} * args.{0}_stride_h + {3} * args.{0}_stride_s;",
                            tensor, entry, dialect.int64(head_), dialect.int64(row)));
    }
  }

  std::string offset(const std::string& tensor, int stretch, int element) const {
    const int distance = stretch * columns_.partner + element;
    return fmt::format("{}_row + d0{}", tensor, distance == 0 ? "" : fmt::format(" + {}", distance));
  }

  void load(int stretch) {
    const Dialect& dialect = writer_.dialect();
    const std::string array = fmt::format("{}[n]", kArrays[stretch]);
    if (chunk_ > 1)
      return dialect.load_chunk(out_, array, source_.name, source_.dtype, offset(source_.name, stretch, 0));
    for (int element = 0; element < width_; ++element)
      out_.line(fmt::format(
          "{}[{}] = {};", array, element,
          dialect.load_global(source_.name, source_.dtype, offset(source_.name, stretch, element))));
  }

  void store(int stretch) {
    const Dialect& dialect = writer_.dialect();
    const std::string array = fmt::format("{}[n]", kArrays[stretch]);
    if (chunk_ > 1)
      return dialect.store_chunk(out_, array, map_.output, source_.dtype, offset(map_.output, stretch, 0));
    for (int element = 0; element < width_; ++element)
      dialect.store_global(out_, map_.output, source_.dtype, offset(map_.output, stretch, element),
                           fmt::format("{}[{}]", array, element));
  }

  // Element of the source at d (0) or at its partner (1).
  std::string element(int which) const {
    if (step_ == 2) return fmt::format("x[n][2 * p{}]", which == 0 ? "" : " + 1");
    return fmt::format("{}[n][p]", kArrays[which]);
  }

  std::string text(NodeId root) {
    const auto variable = [&](const std::string& name) -> std::string {
      if (name == "x") return element(0);
      if (name == "y") return element(1);
      for (const Let& let : columns_.shared)
        if (let.name == name) return name + "[p]";
      return name;
    };
    const auto input = [&](NodeId id) {
      if (const auto found = reduced_.find(id); found != reduced_.end()) return found->second;
      const auto* partner = as<Partner>(graph_.node(id));
      if (partner == nullptr) return element(0);
      const std::string at = fmt::format("{}_row + {}", source_.name, partner_index(*partner, "d"));
      return writer_.dialect().load_global(source_.name, source_.dtype, at);
    };
    return writer_.expression(root, {variable, [](Axis axis) { return std::string(name(axis)); }, input});
  }

  void compute() {
    open_pairs();
    const std::string first = text(columns_.first);
    if (!columns_.second.valid()) {
      out_.line(fmt::format("{} = {};", element(0), first));
    } else {
      out_.line(fmt::format("const float first = {};", first));
      const std::string second = text(columns_.second);
      out_.line(fmt::format("{} = {};", element(1), second));
      out_.line(fmt::format("{} = first;", element(0)));
    }
    out_.close();
  }

  TileWriter& writer_;
  SourceWriter& out_;
  const MapRows& map_;
  const ColumnGroup& columns_;
  const Graph& graph_;
  const TensorInfo& source_;
  int chunk_, step_, width_, stretches_, units_;
  bool is_query_, shares_;
  std::map<NodeId, std::string> reduced_;
  const char *row_, *head_;
};

}  // namespace

// Which rows and heads this workgroup takes.
void TileWriter::row_scalars() {
  const int block = program_.schedule.block_q, groups = program_.head_groups();
  const std::string heads =
      fmt::format("const int head_begin = block / tiles % {} * {};", groups, program_.rows->heads);
  size_scalars();
  if (program_.info.storage.ragged) {
    out_.line(fmt::format("if (block >= {} * tiles) return;", groups));
    out_.line("const int place = block % tiles;");
    out_.line(heads);
    body(program_.sequence.find);
    body(program_.sequence.measure);
    out_.line("const int row_begin = q_begin;");
    out_.line(fmt::format("if (row_begin < 0 || row_begin >= {}) return;", name(program_.rows->size)));
    return;
  }
  out_.line(fmt::format("if (block >= batch * {} * tiles) return;", groups));
  out_.line(fmt::format("const int row_begin = block % tiles * {};", block));
  out_.line(heads);
  out_.line(fmt::format("const int b = block / tiles / {};", groups));
  body(program_.sequence.measure);
}

void TileWriter::write(const MapRows& s) { RowMapper(*this, s).write(); }

}  // namespace attnfuse
