// Text of a tile program, one statement per line, and the rules it must obey.
#include "ir/tile.h"

#include <fmt/format.h>

#include "ir/analysis.h"

namespace attnfuse {
namespace {

std::string text(const std::vector<Digit>& digits) {
  std::string result;
  for (const Digit& digit : digits)
    result += fmt::format("{}{}:{}*{}", result.empty() ? "" : " ", digit.extent,
                          digit.axis == TileAxis::row ? "row" : "col", digit.stride);
  return "(" + result + ")";
}

std::string text(const Tile& tile) {
  const std::string layout = std::visit(
      overloaded{[](const FragmentLayout& l) {
                   return fmt::format("registers {} lanes {} warps {}", text(l.registers), text(l.lanes),
                                      text(l.warps));
                 },
                 [](const SharedLayout& l) {
                   return fmt::format("shared stride {}{}", l.stride, l.column_major ? " column-major" : "");
                 },
                 [](const OpaqueLayout& l) { return fmt::format("matrix fragments, {} warps", l.warps); }},
      tile.layout);
  return fmt::format("tile {} : {} [{}={} x {}={}] {}", tile.name, name(tile.type), name(tile.row.axis),
                     tile.rows, name(tile.col.axis), tile.cols, layout);
}

std::string_view text(CopyKind kind) {
  switch (kind) {
    case CopyKind::direct:
      return "direct";
    case CopyKind::staged:
      return "staged";
    case CopyKind::async:
      return "async";
  }
  return "";
}

std::string_view text(ReduceOp op) { return op == ReduceOp::sum ? "sum" : "max"; }

class Printer {
 public:
  explicit Printer(const TileProgram& program) : p_(program) {}

  std::string run() {
    line(fmt::format("kernel {} for {}: {} schedule, q {} x k {}, {} warps, copy {}", p_.name, p_.target.name,
                     p_.schedule.name, p_.schedule.block_q, p_.schedule.block_k, p_.schedule.warps,
                     text(p_.schedule.copy)));
    for (const Tile& tile : p_.tiles) line(text(tile));
    for (const Channel& channel : p_.channels)
      line(fmt::format("channel {} -> {} : {} copy of {}{}", channel.name, p_.tile(channel.tile).name,
                       text(channel.kind), p_.expressions.tensor(channel.source).name,
                       channel.transform.valid() ? ", transformed by " + expr(channel.transform) : ""));
    body(p_.body);
    return result_;
  }

  std::string run(const Statement& statement) {
    std::visit([&](const auto& s) { print(s); }, statement.kind);
    return result_.substr(0, result_.find('\n'));
  }

 private:
  void line(const std::string& text) { result_ += std::string(std::size_t(depth_) * 2, ' ') + text + "\n"; }
  std::string expr(NodeId id) { return expression_text(p_.expressions, id); }
  const std::string& tile(TileId id) { return p_.tile(id).name; }

  void body(const Body& statements) {
    ++depth_;
    for (const Statement& statement : statements)
      std::visit([&](const auto& s) { print(s); }, statement.kind);
    --depth_;
  }

  void print(const Let& s) { line(fmt::format("let {} = {}", s.name, expr(s.value))); }
  void print(const Put& s) {
    line(fmt::format("put {} rows [{}, +{}) below {}", p_.channel(s.channel).name, expr(s.first_row),
                     p_.tile(p_.channel(s.channel).tile).rows, expr(s.row_limit)));
  }
  void print(const Take& s) { line(fmt::format("take {}", p_.channel(s.channel).name)); }
  void print(const Fill& s) { line(fmt::format("fill {} = {}", tile(s.tile), s.value)); }
  void print(const Move& s) { line(fmt::format("move {} <- {}", tile(s.to), tile(s.from))); }
  void print(const Mma& s) {
    line(fmt::format("mma {} += {} x {}{}", tile(s.accumulator), tile(s.a), tile(s.b),
                     s.b_rows_contract ? "" : "^T"));
  }
  void print(const Map& s) { line(fmt::format("map {} = {}", tile(s.to), expr(s.value))); }
  void print(const RowReduce& s) {
    line(fmt::format("reduce {} = {}{} of {}{}", tile(s.to), text(s.op), s.accumulate ? " onto itself" : "",
                     tile(s.from), s.across_lanes ? "" : ", lane by lane"));
  }
  void print(const LaneReduce& s) {
    line(fmt::format("reduce {} = {} over lanes", tile(s.tile), text(s.op)));
  }
  void print(const ScaleRows& s) { line(fmt::format("scale {} rows by {}", tile(s.tile), tile(s.factor))); }
  void print(const Barrier& s) { line(s.scope == Scope::warp ? "barrier warp" : "barrier"); }
  void print(const Scrub& s) { line(fmt::format("scrub {} raising {}", tile(s.tile), s.flag)); }
  void print(const Store& s) {
    line(fmt::format("store {} <- {} rows [{}, ..) below {}", s.output, tile(s.from), expr(s.first_row),
                     expr(s.row_limit)));
  }
  void print(const Restore& s) {
    line(fmt::format("restore non-finite values of {} into {} if {}", p_.expressions.tensor(s.value).name,
                     s.output, s.flag));
  }
  void print(const If& s) {
    line(fmt::format("if {}", expr(s.condition)));
    body(s.body);
  }
  void print(const TileLoop& s) {
    line(fmt::format("for {} in [{}, {}){}", s.variable, expr(s.begin), expr(s.end),
                     s.skip.valid() ? " except where " + expr(s.skip) : ""));
    ++depth_;
    line("before the first");
    body(s.before);
    line("each");
    body(s.body);
    --depth_;
  }

  const TileProgram& p_;
  std::string result_;
  int depth_ = 0;
};

// The rules: tiles and channels exist, register tiles match the workgroup, maps write registers, moves keep
// shapes, products agree in shape, the argument block has no overlap.
class Verifier {
 public:
  explicit Verifier(const TileProgram& program) : p_(program) {}

  Diagnostics run() {
    for (const Tile& tile : p_.tiles) check_tile(tile);
    for (const Channel& channel : p_.channels)
      require(!std::holds_alternative<OpaqueLayout>(p_.tile(channel.tile).layout),
              "channel " + channel.name + " must fill a tile that threads can address");
    int end = 0;
    for (const ParamField& field : p_.params) {
      require(field.offset >= end, "argument " + field.name + " overlaps the one before it");
      end = field.offset + (field.kind == ParamField::Kind::size ? 4 : 8);
    }
    require(end <= p_.param_bytes, "the argument block is too short");
    body(p_.body);
    return std::move(mistakes_);
  }

 private:
  void require(bool condition, const std::string& message) {
    if (!condition) mistakes_.push_back({"tile.rule", p_.name + ": " + message, p_.info.where, ""});
  }

  void check_tile(const Tile& tile) {
    require(tile.rows > 0 && tile.cols > 0, tile.name + " is empty");
    if (const auto* layout = std::get_if<FragmentLayout>(&tile.layout)) {
      require(layout->lane_count() == p_.target.warp_size,
              fmt::format("{} has {} lanes, the target {}", tile.name, layout->lane_count(),
                          p_.target.warp_size));
      require(layout->warp_count() == p_.schedule.warps,
              fmt::format("{} has {} warps, the schedule {}", tile.name, layout->warp_count(),
                          p_.schedule.warps));
      require(tile.space == Space::registers, tile.name + " has a register layout but is not in registers");
    }
    if (const auto* layout = std::get_if<SharedLayout>(&tile.layout))
      require(layout->stride >= (layout->column_major ? tile.rows : tile.cols),
              tile.name + " has rows that overlap");
  }

  void body(const Body& statements) {
    for (const Statement& statement : statements)
      std::visit([&](const auto& s) { check(s); }, statement.kind);
  }

  void same_shape(TileId a, TileId b, const char* what) {
    const Tile &x = p_.tile(a), &y = p_.tile(b);
    require(x.rows == y.rows && x.cols == y.cols,
            fmt::format("{}: {} is {} x {}, {} is {} x {}", what, x.name, x.rows, x.cols, y.name, y.rows,
                        y.cols));
  }
  void one_per_row(TileId vector, TileId tile) {
    require(p_.tile(vector).rows == p_.tile(tile).rows && p_.tile(vector).cols == 1,
            p_.tile(vector).name + " must hold one value per row of " + p_.tile(tile).name);
  }

  template <class T>
  void check(const T&) {}  // statements without a rule of their own
  void check(const Move& s) { same_shape(s.to, s.from, "move"); }
  void check(const Map& s) {
    require(std::holds_alternative<FragmentLayout>(p_.tile(s.to).layout),
            "map writes " + p_.tile(s.to).name + ", which no lane can address");
  }
  void check(const RowReduce& s) { one_per_row(s.to, s.from); }
  void check(const LaneReduce& s) { one_per_row(s.tile, s.of); }
  void check(const ScaleRows& s) { one_per_row(s.factor, s.tile); }
  void check(const Mma& s) {
    const Tile &acc = p_.tile(s.accumulator), &a = p_.tile(s.a), &b = p_.tile(s.b);
    const int b_n = s.b_rows_contract ? b.cols : b.rows, b_k = s.b_rows_contract ? b.rows : b.cols;
    require(acc.rows == a.rows && acc.cols == b_n && a.cols == b_k,
            fmt::format("product {} [{} x {}] += {} [{} x {}] x {} [{} x {}] does not fit", acc.name,
                        acc.rows, acc.cols, a.name, a.rows, a.cols, b.name, b.rows, b.cols));
  }
  void check(const If& s) { body(s.body); }
  void check(const TileLoop& s) {
    body(s.before);
    body(s.body);
  }

  const TileProgram& p_;
  Diagnostics mistakes_;
};

}  // namespace

int shared_bytes(const Tile& tile) {
  const auto& layout = std::get<SharedLayout>(tile.layout);
  const int bytes = layout.stride * (layout.column_major ? tile.cols : tile.rows) * size_in_bytes(tile.type);
  return (bytes + 15) / 16 * 16;
}

Diagnostics verify(const TileProgram& program) { return Verifier(program).run(); }
std::string print(const TileProgram& program) { return Printer(program).run(); }
std::string headline(const TileProgram& program, const Statement& statement) {
  return Printer(program).run(statement);
}

}  // namespace attnfuse
