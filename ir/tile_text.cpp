// Text of a tile program, one statement per line.
#include <fmt/format.h>

#include "ir/analysis.h"
#include "ir/storage.h"
#include "ir/text.h"
#include "ir/tile.h"

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
                   return l.swizzled ? std::string("shared swizzled")
                                     : fmt::format("shared stride {}{}", l.stride,
                                                   l.column_major ? " column-major" : "");
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
    case CopyKind::bulk:
      return "bulk";
  }
  return "";
}

class Printer {
 public:
  explicit Printer(const TileProgram& program) : p_(program) {}

  std::string run() {
    line(fmt::format("kernel {} for {}: {} schedule, q {} x k {}, {} warps, copy {}", p_.name, p_.target.name,
                     p_.schedule.name, p_.schedule.block_q, p_.schedule.block_k, p_.schedule.warps,
                     text(p_.schedule.copy)));
    for (const Tile& tile : p_.tiles) line(text(tile));
    for (const Channel& channel : p_.channels) print(channel);
    if (!p_.info.storage.is_plain()) line("sequences " + to_string(p_.info.storage));
    body(p_.sequence.find);
    body(p_.sequence.measure);
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

  void print(const Channel& channel) {
    std::string stages;
    for (const ChannelStage& stage : channel.stages)
      stages += fmt::format(" -> {}({})", stage.name, stage.arrivals);
    if (!channel.source.valid())
      return line(fmt::format("channel {} of query tiles, {} slots{}", channel.name, channel.slots, stages));
    line(fmt::format("channel {} -> {} : {} copy of {}{}{}", channel.name, p_.tile(channel.tile).name,
                     text(channel.kind), p_.expressions.tensor(channel.source).name,
                     channel.transform.valid() ? ", transformed by " + expr(channel.transform) : "",
                     stages.empty() ? "" : fmt::format(", {} slots{}", channel.slots, stages)));
  }
  void print(const Let& s) {
    line(fmt::format("{} {} = {}", s.changes ? "var" : "let", s.name, expr(s.value)));
  }
  void print(const Assign& s) { line(fmt::format("{} = {}", s.name, expr(s.value))); }
  void print(const Put& s) {
    line(fmt::format("put {} rows [{}, +{}) below {}", p_.channel(s.channel).name, expr(s.first_row),
                     p_.tile(p_.channel(s.channel).tile).rows, expr(s.row_limit)));
  }
  void print(const Take& s) { line(fmt::format("take {}", p_.channel(s.channel).name)); }
  void print(const Acquire& s) {
    const Channel& channel = p_.channel(s.channel);
    const auto stage = [&](int index) { return channel.stages.at(std::size_t(index)).name; };
    line(fmt::format("acquire {} {}{}", channel.name, stage(s.stage),
                     s.careful_stage < 0 ? "" : ", in a careful run " + stage(s.careful_stage)));
  }
  void print(const Signal& s) {
    const Channel& channel = p_.channel(s.channel);
    line(fmt::format("signal {} {}{}{}", channel.name, channel.stages.at(std::size_t(s.stage)).name,
                     s.wrote ? " after writing" : "", s.each_thread ? ", each thread" : ""));
  }
  void print(const Advance& s) { line(fmt::format("advance {}", p_.channel(s.channel).name)); }
  void print(const Fill& s) { line(fmt::format("fill {} = {}", tile(s.tile), s.value)); }
  void print(const Move& s) { line(fmt::format("move {} <- {}", tile(s.to), tile(s.from))); }
  void print(const Mma& s) {
    line(fmt::format("{} {} {} {} x {}{}", s.issued ? "issue" : "mma", tile(s.accumulator),
                     s.cleared ? "=" : "+=", tile(s.a), tile(s.b), s.b_rows_contract ? "" : "^T"));
  }
  void print(const MmaWait& s) {
    line(fmt::format("wait for {}, {} later products may be pending", tile(s.ready), s.pending));
  }
  void print(const Map& s) {
    const bool whole = s.part.begin == 0 && s.part.end == 4;
    line(fmt::format("map {}{} = {}", tile(s.to),
                     whole ? "" : fmt::format(" (quarters {} to {})", s.part.begin, s.part.end),
                     expr(s.value)));
  }
  void print(const RowReduce& s) {
    line(fmt::format("reduce {} = {}{} of {}{}", tile(s.to), name(s.op), s.accumulate ? " onto itself" : "",
                     s.value.valid() ? expr(s.value) : tile(s.from), s.across_lanes ? "" : ", lane by lane"));
  }
  void print(const LaneReduce& s) {
    line(fmt::format("reduce {} = {} over lanes", tile(s.tile), name(s.op)));
  }
  void print(const ScaleRows& s) { line(fmt::format("scale {} rows by {}", tile(s.tile), tile(s.factor))); }
  void print(const PairColumns& s) {
    line(fmt::format("pair {} = {} of {}{}", tile(s.to), label(s.partner), tile(s.from),
                     s.output.empty() ? "" : " from " + s.output));
  }
  void print(const Barrier& s) { line(s.scope == Scope::warp ? "barrier warp" : "barrier"); }
  void print(const Scrub& s) { line(fmt::format("scrub {} raising {}", tile(s.tile), s.flag)); }
  void print(const Store& s) {
    line(fmt::format("store {} <- {} rows [{}, ..) below {}", s.output, tile(s.from), expr(s.first_row),
                     expr(s.row_limit)));
  }
  void print(const BulkStore& s) {
    line(fmt::format("store {} <- {} rows [{}, ..) in bulk{}", s.output, p_.channel(s.channel).name,
                     expr(s.first_row), s.unless_doubted.valid() ? " unless in doubt" : ""));
  }
  void print(const MapSlot& s) {
    line(fmt::format("map {} rows [{}, ..) in place", p_.channel(s.channel).name, expr(s.first_row)));
  }
  void print(const BulkDrain&) { line("wait for bulk stores"); }
  void print(const Restore& s) {
    line(fmt::format("restore non-finite values of {}{} into {}{}", p_.expressions.tensor(s.value).name,
                     s.is_nan ? ", as NaN," : "",
                     s.to.valid()   ? tile(s.to)
                     : s.in.valid() ? tile(s.in)
                                    : s.output,
                     s.flag.empty() ? "" : " if " + s.flag));
  }
  void print(const MapRows& s) {
    const std::string columns = s.columns.partner == 0 ? ""
                                : s.columns.partner == 1
                                    ? ", in neighbours"
                                    : fmt::format(", each with d + {}", s.columns.partner);
    line(fmt::format("map rows [{}, ..) below {} of {} to {}, d in [{}, {}){}", expr(s.first_row),
                     expr(s.row_limit), p_.expressions.tensor(s.source).name, s.output, s.columns.begin,
                     s.columns.end, columns));
    ++depth_;
    for (const Let& let : s.columns.shared) print(let);
    line("x -> " + expr(s.columns.first));
    if (s.columns.second.valid()) line("y -> " + expr(s.columns.second));
    --depth_;
  }
  void print(const Fold& s) {
    line(fmt::format("fold over {} in [{}, {}){}", s.variable, expr(s.begin), expr(s.end),
                     s.shared.valid() ? ", shared by the threads" : ""));
    body(s.each);
    ++depth_;
    for (const Fold::Result& result : s.results)
      line(fmt::format("{} = {} of {}", result.name, info(result.op).name, expr(result.value)));
    --depth_;
  }
  void print(const StoreScalars& s) {
    std::string values;
    for (NodeId value : s.values) values += (values.empty() ? "" : ", ") + expr(value);
    line(fmt::format("store {} <- {}", s.output, values));
  }
  void print(const Chain& s) { line(s.wait ? "wait for the kernels before" : "let the next kernel start"); }
  void print(const MergeShares& s) {
    line(fmt::format("merge rows [{}, ..) below {} of {} by {}", expr(s.first_row), expr(s.row_limit), s.from,
                     s.from_lse));
  }
  void print(const While& s) {
    line(fmt::format("while {}", expr(s.condition)));
    body(s.body);
  }
  void print(const Roles& s) {
    for (const Role& role : s.roles) {
      line(fmt::format("role {}: threads [{}, +{}){}, {} registers", role.name, role.first_thread,
                       role.threads, role.groups > 1 ? fmt::format(" in {} groups", role.groups) : "",
                       role.registers));
      body(role.body);
    }
  }
  void print(const WorkItems& s) {
    constexpr const char* kParts[] = {"hand out", "take", "finish"};
    line(fmt::format("{} query tiles through {}{}", kParts[int(s.part)], p_.channel(s.ring).name,
                     s.repeats ? ", some of them twice" : ""));
    body(s.body);
  }
  void print(const Doubt& s) {
    line(fmt::format("doubt the tile of {} if {} is not finite", p_.channel(s.ring).name, tile(s.tile)));
  }
  void print(const Turn& s) { line(s.pass ? "pass the turn" : "wait for the turn"); }
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

}  // namespace

std::string print(const TileProgram& program) { return Printer(program).run(); }
std::string headline(const TileProgram& program, const Statement& statement) {
  return Printer(program).run(statement);
}

}  // namespace attnfuse
