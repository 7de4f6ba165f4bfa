// The rules that a tile program must obey, and the sizes of its parts.
#include "ir/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/analysis.h"

namespace attnfuse {
namespace {

// The rules: tiles and channels exist, register tiles match the workgroup, maps write registers, moves keep
// shapes, products agree in shape, the argument block has no overlap.
class Verifier {
 public:
  explicit Verifier(const TileProgram& program) : p_(program) {}

  Diagnostics run() {
    for (const Tile& tile : p_.tiles) check_tile(tile);
    for (const Channel& channel : p_.channels)
      require(!channel.tile.valid() || !std::holds_alternative<OpaqueLayout>(p_.tile(channel.tile).layout),
              "channel " + channel.name + " must fill a tile that threads can address");
    int end = 0;
    for (const ParamField& field : p_.params) {
      require(field.offset >= end, "argument " + field.name + " overlaps the one before it");
      require(field.offset % alignment(field.kind) == 0, "argument " + field.name + " is not aligned");
      end = field.offset + size_in_bytes(field.kind);
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
      const int warps = p_.schedule.groups > 0 ? p_.target.pipeline->group_threads / p_.target.warp_size
                                               : p_.schedule.warps;
      require(layout->warp_count() == warps,
              fmt::format("{} has {} warps, the schedule {}", tile.name, layout->warp_count(), warps));
      require(tile.space == Space::registers, tile.name + " has a register layout but is not in registers");
    }
    if (const auto* layout = std::get_if<SharedLayout>(&tile.layout))
      require(layout->swizzled || layout->stride >= (layout->column_major ? tile.rows : tile.cols),
              tile.name + " has rows that overlap");
  }

  void body(const Body& statements) {
    for (const Statement& statement : statements)
      std::visit([&](const auto& s) { check(s); }, statement.kind);
  }

  // A shared tile may hold the rows of every group of a role.
  bool same_rows(const Tile& x, const Tile& y) const {
    const int groups = std::max(p_.schedule.groups, 1);
    return x.rows == y.rows || (x.space == Space::shared && x.rows == y.rows * groups);
  }
  void same_shape(TileId a, TileId b, const char* what) {
    const Tile &x = p_.tile(a), &y = p_.tile(b);
    require(same_rows(x, y) && x.cols == y.cols, fmt::format("{}: {} is {} x {}, {} is {} x {}", what, x.name,
                                                             x.rows, x.cols, y.name, y.rows, y.cols));
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
  void check(const PairColumns& s) {
    same_shape(s.to, s.from, "pair");
    const auto* layout = std::get_if<FragmentLayout>(&p_.tile(s.from).layout);
    require(layout != nullptr && p_.tile(s.to).layout == p_.tile(s.from).layout,
            "pairs of " + p_.tile(s.from).name + " go to another layout");
    require(!s.output.empty() || layout == nullptr || !paired_registers(*layout, s.partner).empty(),
            "pairs of " + p_.tile(s.from).name + " lie in several lanes");
  }
  void check(const RowReduce& s) { one_per_row(s.to, s.from); }
  void check(const LaneReduce& s) { one_per_row(s.tile, s.of); }
  void check(const ScaleRows& s) { one_per_row(s.factor, s.tile); }
  void check(const Mma& s) {
    const Tile &acc = p_.tile(s.accumulator), &a = p_.tile(s.a), &b = p_.tile(s.b);
    const int b_n = s.b_rows_contract ? b.cols : b.rows, b_k = s.b_rows_contract ? b.rows : b.cols;
    // Part of a shared tile's rows: as many as the other operand, or the accumulator, has.
    const bool n_fits = acc.cols == b_n || (!s.b_rows_contract && b.space == Space::shared && acc.cols < b_n);
    const bool k_fits = a.cols == b_k || (s.b_rows_contract && b.space == Space::shared && a.cols < b_k);
    require(same_rows(a, acc) && n_fits && k_fits,
            fmt::format("product {} [{} x {}] += {} [{} x {}] x {} [{} x {}] does not fit", acc.name,
                        acc.rows, acc.cols, a.name, a.rows, a.cols, b.name, b.rows, b.cols));
  }
  void check(const MapRows& s) {
    require(p_.rows.has_value(), "rows are mapped by a program that does not divide rows");
    require(s.columns.begin >= 0 && s.columns.begin < s.columns.end, "no columns to map");
    require(s.columns.partner == 0 || s.columns.second.valid(),
            "columns with partners need a value for both");
    require(s.columns.partner != 1 || (s.columns.end - s.columns.begin) % 2 == 0, "neighbours come in twos");
    require(
        std::ranges::any_of(p_.outputs, [&](const OutputInfo& output) { return output.name == s.output; }),
        "unknown output " + s.output);
  }
  void check(const Fold& s) {
    for (const Fold::Result& result : s.results)
      require(result.op == ScalarOp::imin || result.op == ScalarOp::imax || result.op == ScalarOp::iadd,
              "no fold of " + result.name + " by " + std::string(info(result.op).name));
    require(!s.shared.valid() || p_.tile(s.shared).cols == p_.threads(),
            "a shared fold needs an element a thread");
    body(s.each);
  }
  void check(const If& s) { body(s.body); }
  void check(const While& s) { body(s.body); }
  void check(const WorkItems& s) { body(s.body); }
  void check(const Roles& s) {
    const int together = p_.target.pipeline->group_threads;
    std::map<int, int> registers;  // by group of threads
    int end = 0;
    for (const Role& role : s.roles) {
      require(role.first_thread >= end, "role " + role.name + " shares threads with another");
      end = role.first_thread + role.threads;
      for (int group = role.first_thread / together; group <= (end - 1) / together; ++group) {
        const int known = registers.try_emplace(group, role.registers).first->second;
        require(known == role.registers,
                "role " + role.name + " disagrees about registers with its neighbours");
      }
      body(role.body);
    }
    int barriers = 0;
    for (const Channel& channel : p_.channels)
      barriers += channel.slots * int(channel.stages.size()) * 8 +
                  (channel.tile.valid() ? 0 : channel.slots * kWorkItemBytes);
    require(barriers <= kBookkeepingBytes, "the barriers need more room than there is");
    require(end <= p_.threads(), "roles need more threads than the schedule has");
    int total = 0;
    for (const auto& [group, count] : registers) total += count * together;
    const int available = p_.target.pipeline->registers_at_start(p_.threads()) * p_.threads();
    require(total <= available, fmt::format("roles ask for {} registers of {}", total, available));
  }
  void check(const Acquire& s) { check_stage(s.channel, s.stage); }
  void check(const Signal& s) { check_stage(s.channel, s.stage); }
  void check_stage(ChannelId id, int stage) {
    const Channel& channel = p_.channel(id);
    require(stage >= 0 && std::size_t(stage) < channel.stages.size(),
            fmt::format("channel {} has no stage {}", channel.name, stage));
  }
  void check(const TileLoop& s) {
    body(s.before);
    body(s.body);
  }

  const TileProgram& p_;
  Diagnostics mistakes_;
};

}  // namespace

std::vector<OutputInfo> outputs_of(const Graph& graph) {
  std::vector<OutputInfo> outputs = {{"o", graph.info().dtype, true}, {"lse", DType::f32, false}};
  if (graph.output("lse2").valid()) outputs.push_back({"lse2", DType::f32, false});
  if (graph.output("max_logit").valid()) outputs.push_back({"max_logit", DType::f32, false});
  return outputs;
}

TileProgram::TileProgram() = default;
TileProgram::TileProgram(const TileProgram& other) = default;
TileProgram::TileProgram(TileProgram&& other) noexcept = default;
TileProgram& TileProgram::operator=(const TileProgram& other) = default;
TileProgram& TileProgram::operator=(TileProgram&& other) noexcept = default;
TileProgram::~TileProgram() = default;

int TileProgram::head_groups() const {
  return rows ? (rows->all_heads + rows->heads - 1) / rows->heads : info.heads * value_parts();
}

namespace {

int partner_column(const Partner& partner, int d) {
  if (d >= partner.count) return d;
  switch (partner.pairs) {
    case RotaryPairs::half:
      return d < partner.count / 2 ? d + partner.count / 2 : d - partner.count / 2;
    case RotaryPairs::interleaved:
      return d ^ 1;
  }
  return d;
}

}  // namespace

std::vector<int> paired_registers(const FragmentLayout& layout, const Partner& partner) {
  std::vector<int> result(std::size_t(layout.register_count()), -1);
  for (int lane = 0; lane < layout.lane_count(); ++lane) {
    const auto place = [&](int reg) {
      return std::pair(layout.coordinate(TileAxis::row, reg, lane, 0),
                       layout.coordinate(TileAxis::col, reg, lane, 0));
    };
    std::map<std::pair<int, int>, int> registers;
    for (int reg = 0; reg < layout.register_count(); ++reg) registers[place(reg)] = reg;
    for (int reg = 0; reg < layout.register_count(); ++reg) {
      const auto [row, column] = place(reg);
      const auto found = registers.find({row, partner_column(partner, column)});
      int& known = result[std::size_t(reg)];
      if (found == registers.end() || (known >= 0 && known != found->second)) return {};
      known = found->second;
    }
  }
  return result;
}

int shared_bytes(const Tile& tile) {
  const auto& layout = std::get<SharedLayout>(tile.layout);
  if (layout.swizzled) {
    const int panel = kSwizzleBytes / size_in_bytes(tile.type);
    return tile.rows * ((layout.stride + panel - 1) / panel) * kSwizzleBytes;
  }
  const int bytes = layout.stride * (layout.column_major ? tile.cols : tile.rows) * size_in_bytes(tile.type);
  return (bytes + 15) / 16 * 16;
}

int slot_bytes(const Tile& tile) {
  constexpr int kSlotAlignment = 1024;  // where the pattern of swizzled rows starts again
  return (shared_bytes(tile) + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

int size_in_bytes(ParamField::Kind kind) {
  switch (kind) {
    case ParamField::Kind::pointer:
    case ParamField::Kind::stride:
    case ParamField::Kind::counter:
      return 8;
    case ParamField::Kind::size:
    case ParamField::Kind::shares:
      return 4;
    case ParamField::Kind::tensor_map:
      return 128;
  }
  return 0;
}

int alignment(ParamField::Kind kind) {
  return kind == ParamField::Kind::tensor_map ? 64 : size_in_bytes(kind);
}

Diagnostics verify(const TileProgram& program) { return Verifier(program).run(); }

}  // namespace attnfuse
