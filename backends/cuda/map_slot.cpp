#include "backends/cuda/map_slot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "ir/algorithm.h"

namespace attnfuse::cuda {
namespace {

// Rows of a thread in one iteration. With sums they are all read before the first is written: the exchanges
// of one take long. Else that is slower (bench/results: it holds more of the units that the softmax needs).
constexpr int kTogether = 2, kTogetherWithSums = 4;
constexpr int kSwizzleRows = 8;  // the pattern comes again

// What an f32 value gains from one row to the next: the product of factors that do not depend on the row,
// over a product of divisors. Nothing where it does not grow evenly.
struct Growth {
  double constant = 0;
  std::vector<NodeId> factors, divisors;
};

std::optional<double> whole_growth(const Graph& graph, NodeId id, Axis row) {
  const Node& node = graph.node(id);
  if (!node.axes.has(row)) return 0;
  if (as<Index>(node) != nullptr) return 1;
  const auto* apply = as<Apply>(node);
  if (apply == nullptr || (apply->op != ScalarOp::iadd && apply->op != ScalarOp::isub)) return {};
  const auto a = whole_growth(graph, graph.operand(id, 0), row),
             b = whole_growth(graph, graph.operand(id, 1), row);
  if (!a || !b) return {};
  return apply->op == ScalarOp::iadd ? *a + *b : *a - *b;
}

std::optional<Growth> growth(const Graph& graph, NodeId id, Axis row) {
  const auto* apply = as<Apply>(graph.node(id));
  if (apply == nullptr || !graph.node(id).axes.has(row)) return {};
  const auto operand = [&](int n) { return graph.operand(id, n); };
  const auto is_fixed = [&](int n) { return !graph.node(operand(n)).axes.has(row); };
  std::optional<Growth> result;
  switch (apply->op) {
    case ScalarOp::to_f32:
      if (const auto whole = whole_growth(graph, operand(0), row)) result = Growth{*whole, {}, {}};
      return result;
    case ScalarOp::neg:
      result = growth(graph, operand(0), row);
      if (result) result->constant = -result->constant;
      return result;
    case ScalarOp::mul:
      for (int n : {0, 1}) {
        if (is_fixed(1 - n)) result = growth(graph, operand(n), row);
        if (!result) continue;
        result->factors.push_back(operand(1 - n));
        return result;
      }
      return {};
    case ScalarOp::div:
      if (is_fixed(1)) result = growth(graph, operand(0), row);
      if (result) result->divisors.push_back(operand(1));
      return result;
    default:
      return {};
  }
}

class SlotMapper {
 public:
  SlotMapper(TileWriter& writer, const MapSlot& map, const Channel& channel, const ColumnGroup& group)
      : writer_(writer),
        out_(writer.out()),
        first_row_(writer.scalar(map.first_row)),
        graph_(writer.program().expressions),
        source_(graph_.tensor(channel.source)),
        tile_(writer.tile(channel.tile)),
        group_(group),
        row_(source_.role == TensorRole::query ? Axis::i : Axis::j) {
    is_pair_ = group.partner > 0;
    pairs_ = is_pair_ ? 2 : 4;
    width_ = group.partner > 1 ? 2 : 4;
    units_ = (group.end - group.begin) / width_;
    lanes_ = writer.threads() / units_;
    patterns_ = kSwizzleRows / std::gcd(lanes_, kSwizzleRows);
    sums_ = reduces(graph_, group.first) || (group.second.valid() && reduces(graph_, group.second));
    together_ = std::max(sums_ ? kTogetherWithSums : kTogether, patterns_);
    // All lanes take part in exchanges.
    if (sums_ && tile_.rows % (lanes_ * together_) != 0) together_ = patterns_;
    find_turns();
  }

  void write() {
    const int active = units_ * lanes_;
    out_.open(active == writer_.threads() ? "" : fmt::format("if (thread < {})", active));
    const std::string begin = group_.begin == 0 ? "" : fmt::format("{} + ", group_.begin);
    out_.line(
        fmt::format("const int d0 = {}thread % {} * {}, row0 = thread / {};", begin, units_, width_, units_));
    declare();
    place();
    writer_.open_rolled(
        fmt::format("for (int row = row0; row < {}; row += {})", tile_.rows, lanes_ * together_));
    out_.line(fmt::format("af_u32 word0[{0}], word1[{0}];", together_));
    const auto read = [&] {
      for (int n : {0, 1}) out_.line(fmt::format("word{0}[u] = {1};", n, word_at(n)));
    };
    if (sums_) for_rows(read);
    for_rows([&] {
      if (!sums_) read();
      out_.line(fmt::format("const int {} = {} + row + u * {};", name(row_), first_row_, lanes_));
      compute();
    });
    writer_.open_registers(patterns_, "u");
    for (int n : {0, 1}) out_.line(fmt::format("at{}[u] += {};", n, lanes_ * together_ * words_of_row()));
    out_.close();
    out_.close();
    out_.close();
  }

 private:
  // Between the two words of a unit.
  int distance() const { return group_.partner > 1 ? group_.partner : 2; }
  std::string d_of(const std::string& pair) const {
    return group_.partner == 1 ? fmt::format("d0 + 2 * {}", pair) : "d0 + " + pair;
  }

  // The thread's words in its first rows, one for each pattern of swizzled rows that it meets: those of later
  // rows lie behind them at distances that the compiler knows.
  void place() {
    out_.line(fmt::format("af_u32 *at0[{0}], *at1[{0}];", patterns_));
    writer_.open_registers(patterns_, "u");
    for (int n : {0, 1})
      out_.line(fmt::format("at{}[u] = reinterpret_cast<af_u32*>({} + {});", n, writer_.array_of(tile_),
                            TileWriter::shared_index(tile_, fmt::format("row0 + u * {}", lanes_),
                                                     n == 0 ? "d0" : fmt::format("d0 + {}", distance()))));
    out_.close();
  }
  std::string word_at(int n) const {
    return fmt::format("at{}[u % {}][u / {} * {}]", n, patterns_, patterns_,
                       lanes_ * patterns_ * words_of_row());
  }
  // From one row to the next.
  int words_of_row() const { return kSwizzleBytes / int(sizeof(std::uint32_t)); }

  // The rows of one iteration; those that the tile has, where not all of them are.
  template <class Write>
  void for_rows(Write write) {
    writer_.open_registers(together_, "u");
    const bool guards = tile_.rows % (lanes_ * together_) != 0;
    if (guards) out_.open(fmt::format("if (row + u * {} < {})", lanes_, tile_.rows));
    write();
    if (guards) out_.close();
    out_.close();
  }

  // Cosines and sines of one angle, shared names.
  struct Turn {
    std::string cos, sin;
    Growth growth;
  };
  void find_turns() {
    const auto angle_of = [&](const Let& let, ScalarOp op) {
      const auto* apply = as<Apply>(graph_.node(let.value));
      return apply != nullptr && apply->op == op ? graph_.operand(let.value, 0) : NodeId{};
    };
    for (const Let& c : group_.shared)
      for (const Let& s : group_.shared) {
        const NodeId angle = angle_of(c, ScalarOp::cos);
        if (!angle.valid() || angle != angle_of(s, ScalarOp::sin)) continue;
        if (auto found = growth(graph_, angle, row_)) turns_.push_back({c.name, s.name, std::move(*found)});
      }
  }
  bool turns(const Let& let) const {
    return std::ranges::any_of(turns_, [&](const Turn& t) { return t.cos == let.name || t.sin == let.name; });
  }

  void open_pairs() {
    writer_.open_registers(pairs_, "p");
    out_.line(fmt::format("const int d = {};", d_of("p")));
  }

  // Neither the row nor what turns with it.
  bool is_fixed(const Let& let) const { return !graph_.node(let.value).axes.has(row_); }

  // Shared values: those that no row changes, those that turn at the first row, and by what.
  void declare() {
    for (const Let& let : group_.shared)
      out_.line(fmt::format("{} {}[{}];", c_type(graph_.node(let.value).type), let.name, pairs_));
    for (const Turn& turn : turns_)
      out_.line(fmt::format("float {0}_turn[{1}], {2}_turn[{1}];", turn.cos, pairs_, turn.sin));
    const auto is_early = [&](const Let& let) { return turns(let) || is_fixed(let); };
    if (std::ranges::none_of(group_.shared, is_early)) return;
    out_.open("");
    out_.line(fmt::format("const int {} = {} + row0;", name(row_), first_row_));
    open_pairs();
    for (const Let& let : group_.shared) {
      if (!is_early(let)) continue;
      const std::string value = text(let.value);
      out_.line(fmt::format("{}[p] = {};", let.name, value));
    }
    for (const Turn& turn : turns_) {
      std::string step = literal(turn.growth.constant * lanes_);
      for (NodeId factor : turn.growth.factors) step += fmt::format(" * ({})", text(factor));
      for (NodeId divisor : turn.growth.divisors) step += fmt::format(" / ({})", text(divisor));
      out_.line(fmt::format("const float {}_angle = {};", turn.cos, step));
      out_.line(fmt::format("{0}_turn[p] = af_cos({0}_angle);", turn.cos));
      out_.line(fmt::format("{}_turn[p] = af_sin({}_angle);", turn.sin, turn.cos));
    }
    out_.close();
    out_.close();
  }

  void compute() {
    const std::string unpack = fmt::format("af_unpack_{}", name(source_.dtype));
    if (!is_pair_) {
      out_.line("float x[4];");
      for (int n : {0, 1})
        out_.line(fmt::format("{}(x[{}], x[{}], word{}[u]);", unpack, 2 * n, 2 * n + 1, n));
    } else {
      out_.line("float x[2], y[2];");
      const bool half = group_.partner > 1;
      out_.line(fmt::format("{}(x[0], {}, word0[u]);", unpack, half ? "x[1]" : "y[0]"));
      out_.line(fmt::format("{}({}, y[1], word1[u]);", unpack, half ? "y[0]" : "x[1]"));
    }
    const NodeId last = group_.second.valid() ? group_.second : group_.first;
    TileWriter::RowPart part{{{"x", "d0"}}, is_pair_ ? 2 : 4, units_};
    if (is_pair_) part.columns.push_back({"y", fmt::format("d0 + {}", group_.partner)});
    reduced_ = writer_.reductions({group_.first, last}, source_, "", &part);
    open_pairs();
    for (const Let& let : group_.shared) {
      if (turns(let) || is_fixed(let)) continue;
      const std::string value = text(let.value);
      out_.line(fmt::format("{}[p] = {};", let.name, value));
    }
    const std::string first = text(group_.first);
    if (is_pair_) {
      out_.line(fmt::format("const float first = {};", first));
      const std::string second = text(group_.second);
      out_.line(fmt::format("y[p] = {};", second));
      out_.line("x[p] = first;");
    } else {
      out_.line(fmt::format("x[p] = {};", first));
    }
    for (const Turn& t : turns_) {
      out_.line(
          fmt::format("const float {0}_next = {0}[p] * {0}_turn[p] - {1}[p] * {1}_turn[p];", t.cos, t.sin));
      out_.line(fmt::format("{1}[p] = {1}[p] * {0}_turn[p] + {0}[p] * {1}_turn[p];", t.cos, t.sin));
      out_.line(fmt::format("{0}[p] = {0}_next;", t.cos));
    }
    out_.close();
    store();
  }

  void store() {
    const bool half = group_.partner > 1;
    const char* const parts[2][2] = {{"x[0]", !is_pair_ || half ? "x[1]" : "y[0]"},
                                     {!is_pair_ ? "x[2]"
                                      : half    ? "y[0]"
                                                : "x[1]",
                                      !is_pair_ ? "x[3]" : "y[1]"}};
    for (int n : {0, 1})
      out_.line(
          fmt::format("{} = af_pack_{}({}, {});", word_at(n), name(source_.dtype), parts[n][0], parts[n][1]));
  }

  std::string text(NodeId root) {
    const auto variable = [&](const std::string& name) -> std::string {
      if (name == "x" || name == "y") return name + "[p]";
      for (const Let& let : group_.shared)
        if (let.name == name) return name + "[p]";
      return name;
    };
    const auto sum = [&](NodeId id) { return reduced_.at(id); };
    return writer_.expression(root, {variable, [](Axis axis) { return std::string(name(axis)); }, sum});
  }

  TileWriter& writer_;
  SourceWriter& out_;
  std::string first_row_;
  const Graph& graph_;
  const TensorInfo& source_;
  const Tile& tile_;
  const ColumnGroup& group_;
  Axis row_;
  bool is_pair_ = false, sums_ = false;
  int pairs_, width_, units_, lanes_;
  int patterns_, together_;  // rows of a thread until the pattern comes again, and of an iteration
  std::vector<Turn> turns_;
  std::map<NodeId, std::string> reduced_;  // sums over the row at hand
};

}  // namespace

void map_slot(TileWriter& writer, const MapSlot& map) {
  const Channel& channel = writer.program().channel(map.channel);
  for (const ColumnGroup& group : channel.columns) SlotMapper(writer, map, channel, group).write();
}

}  // namespace attnfuse::cuda
