#include "backends/cuda/hopper_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "backends/common/tile_writer.h"
#include "backends/cuda/map_slot.h"
#include "backends/cuda/prelude.h"

namespace attnfuse::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kRowBytes = kSwizzleBytes;  // of a panel
// Descriptors count in units of 16 bytes.
constexpr int kDescriptorUnit = 16;

std::string slot_of(const Channel& channel) {
  return channel.slots == 1 ? "" : fmt::format(" + {}_slot", channel.name);
}
// The entry of a ring at the cursor: which query tile, and how it is to be computed.
std::string entry_of(const Channel& ring) { return fmt::format("{0}_ring[{0}_slot]", ring.name); }
std::string barrier_of(const Channel& channel, int stage) {
  return fmt::format("{}_{}{}", channel.name, channel.stages.at(std::size_t(stage)).name, slot_of(channel));
}

int panel_columns(const Tile& tile) { return kSwizzleBytes / size_in_bytes(tile.type); }
int panels(const Tile& tile) { return (tile.cols + panel_columns(tile) - 1) / panel_columns(tile); }
int chunks_in_row(const Tile& tile) {
  const int chunk = kSwizzleChunkBytes / size_in_bytes(tile.type);
  return (tile.cols + chunk - 1) / chunk;
}
int panel_bytes(const Tile& tile) { return tile.rows * kRowBytes; }

// Queries and outputs are read once, keys and values again by other workgroups.
std::string cache_hint(TensorRole role) {
  return role == TensorRole::query ? "af_evict_first" : "af_evict_last";
}

std::string rows_of_group(const TileWriter& writer, const std::string& row) {
  return writer.program().schedule.groups > 1 ? fmt::format("group * {} + {}", writer.program().unit.m, row)
                                              : row;
}

// A warp arrives once, after all of its threads; so does a single thread.
void arrive(TileWriter& writer, const std::string& barrier) {
  const bool is_warp = writer.threads() > 1;
  if (is_warp) writer.out().line("__syncwarp();");
  writer.out().line(fmt::format("{}af_arrive({});", is_warp ? "if (lane == 0) " : "", barrier));
}

// Element e of the 16-byte chunks of every row, or every `step`-th row, of a tile.
std::string chunk_at(const TileWriter& writer, const Tile& tile, int step = 1) {
  const int chunk = kSwizzleChunkBytes / size_in_bytes(tile.type);
  const int per_row = chunks_in_row(tile);
  return fmt::format("{} + {}", writer.array_of(tile),
                     TileWriter::shared_index(tile, times(fmt::format("e / {}", per_row), step),
                                              fmt::format("e % {} * {}", per_row, chunk)));
}

// What the statements of a role name.
class Uses {
 public:
  Uses(const TileProgram& program, const Body& statements)
      : program_(program), tiles_(program.tiles.size()), channels_(program.channels.size()) {
    body(statements);
  }

  std::vector<const Tile*> registers() const {
    std::vector<const Tile*> result;
    for (std::size_t t = 0; t < tiles_.size(); ++t)
      if (tiles_[t] && program_.tiles[t].space == Space::registers) result.push_back(&program_.tiles[t]);
    return result;
  }
  bool channel(std::size_t index) const { return channels_[index]; }

 private:
  void body(const Body& statements) {
    for (const Statement& statement : statements)
      std::visit([&](const auto& s) { visit(s); }, statement.kind);
  }
  void use(TileId id) {
    if (id.valid()) tiles_[std::size_t(id.value)] = true;
  }
  void use(ChannelId id) { channels_[std::size_t(id.value)] = true; }
  template <class T>
  void visit(const T&) {}
  void visit(const Fill& s) { use(s.tile); }
  void visit(const Map& s) { use(s.to); }
  void visit(const PairColumns& s) { use(s.to); }
  void visit(const RowReduce& s) { use(s.to); }
  void visit(const Mma& s) { use(s.accumulator), use(s.a), use(s.b); }
  void visit(const Move& s) { use(s.to), use(s.from); }
  void visit(const Acquire& s) { use(s.channel); }
  void visit(const Signal& s) { use(s.channel); }
  void visit(const If& s) { body(s.body); }
  void visit(const While& s) { body(s.body); }
  void visit(const WorkItems& s) { use(s.ring), body(s.body); }
  void visit(const Doubt& s) { use(s.tile); }

  const TileProgram& program_;
  std::vector<bool> tiles_, channels_;
};

// Tensors whose elements the statements read where they lie, rather than through the copy engine.
void collect_direct(const TileProgram& program, const Body& statements, std::set<std::string>& tensors) {
  for (const Statement& statement : statements)
    std::visit(
        overloaded{[&](const Put& s) {
                     const Channel& channel = program.channel(s.channel);
                     if (channel.kind != CopyKind::bulk)
                       tensors.insert(program.expressions.tensor(channel.source).name);
                   },
                   [&](const Restore& s) { tensors.insert(program.expressions.tensor(s.value).name); },
                   [&](const If& s) { collect_direct(program, s.body, tensors); },
                   [&](const While& s) { collect_direct(program, s.body, tensors); }, [](const auto&) {}},
        statement.kind);
}

bool takes_turns(const Body& statements) {
  return std::ranges::any_of(statements, [](const Statement& statement) {
    return std::visit(
        overloaded{[](const Turn&) { return true; }, [](const If& s) { return takes_turns(s.body); },
                   [](const While& s) { return takes_turns(s.body); },
                   [](const WorkItems& s) { return takes_turns(s.body); }, [](const auto&) { return false; }},
        statement.kind);
  });
}

}  // namespace

// ---- the kernel -------------------------------------------------------------------------------

void HopperDialect::begin(TileWriter& writer) const {
  const TileProgram& program = writer.program();
  begin_file(writer, prelude_types(), prelude(program) + hopper_prelude(program));
  SourceWriter& out = writer.out();
  out.open(fmt::format(
      "extern \"C\" __global__ void __launch_bounds__({}, 1) {}(const __grid_constant__ Arguments args)",
      program.threads(), program.name));
  out.line("extern __shared__ __align__(1024) unsigned char shared_memory[];");
  int offset = 0;
  const auto pointer = [&](const std::string& type, const std::string& name, int at,
                           const std::string& comment) {
    out.line(fmt::format("{0}* const {1} = reinterpret_cast<{0}*>(shared_memory + {2});{3}", type, name, at,
                         comment.empty() ? "" : "  // " + comment));
  };
  std::vector<int> starts(program.tiles.size(), -1);
  for (const Channel& channel : program.channels) {
    if (!channel.tile.valid()) continue;
    const Tile& tile = writer.tile(channel.tile);
    starts[std::size_t(channel.tile.value)] = offset;
    pointer(type(tile.type), tile.name, offset,
            fmt::format("{} x {}{}", tile.rows, tile.cols,
                        channel.slots > 1 ? fmt::format(", {} slots", channel.slots) : ""));
    offset += channel.slots * slot_bytes(tile);
  }
  for (const Tile& tile : program.tiles)
    if (tile.memory_of.valid())
      pointer(type(tile.type), tile.name, starts.at(std::size_t(tile.memory_of.value)),
              "in the place of " + writer.tile(tile.memory_of).name);
  pointer("int", "has_nonfinite", offset, "");
  offset += kFlagBytes;
  for (const Channel& channel : program.channels) {
    if (channel.tile.valid()) continue;
    pointer("int4", channel.name + "_ring", offset, "query tile, head, batch entry, how to compute it");
    offset += channel.slots * kWorkItemBytes;
  }
  for (const Channel& channel : program.channels)
    for (const ChannelStage& stage : channel.stages) {
      pointer("af_u64", channel.name + "_" + stage.name, offset, "");
      offset += channel.slots * 8;
    }
  out.line("const int thread = int(threadIdx.x);");
  out.open("if (thread == 0)");
  out.line("*has_nonfinite = 0;");
  for (const Channel& channel : program.channels)
    if (!channel.tile.valid())
      out.line(
          fmt::format("for (int x = 0; x < {}; ++x) {}_ring[x].w = af_none;", channel.slots, channel.name));
  for (const Channel& channel : program.channels)
    for (const ChannelStage& stage : channel.stages)
      out.line(fmt::format("for (int x = 0; x < {}; ++x) af_barrier_init({}_{} + x, {});", channel.slots,
                           channel.name, stage.name, stage.arrivals));
  out.line("af_barrier_init_fence();");
  out.close();
  out.line("__syncthreads();");
}

// The branch on 128 threads comes first: register budgets are theirs. The groups of a role run the same text,
// and so the same instructions: copies of their own would not fit the instruction caches.
void HopperDialect::roles(TileWriter& writer, const Roles& roles) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  const int together = program.target.pipeline->group_threads;
  const int at_start = program.target.pipeline->registers_at_start(program.threads());
  out.line(fmt::format("const int quarter = af_uniform(thread / {});", together));
  for (std::size_t r = 0; r < roles.roles.size();) {
    const Role& first = roles.roles[r];
    const int quarter = first.first_thread / together;
    ATTNFUSE_CHECK(first.groups == 1 || r + 1 == roles.roles.size(), "groups come last");
    out.open(
        fmt::format("{}if (quarter {} {})", r == 0 ? "" : "else ", first.groups > 1 ? ">=" : "==", quarter));
    out.line(
        fmt::format("af_registers_{}<{}>();", first.registers > at_start ? "inc" : "dec", first.registers));
    if (first.groups > 1) {
      out.comment("role " + first.name);
      out.line(fmt::format("const int group = quarter - {};", quarter));
      role_body(writer, first);
    } else {
      for (std::size_t n = r; n < roles.roles.size() && roles.roles[n].first_thread / together == quarter;
           ++n) {
        const Role& role = roles.roles[n];
        const int at = role.first_thread, end = at + role.threads;
        out.comment("role " + role.name);
        out.open(fmt::format("{}if ({})", n == r ? "" : "else ",
                             role.threads == 1 ? fmt::format("thread == {}", at)
                                               : fmt::format("thread >= {} && thread < {}", at, end)));
        role_body(writer, role);
        out.close();
      }
    }
    out.close();
    while (r < roles.roles.size() && roles.roles[r].first_thread / together == quarter) ++r;
  }
}

void HopperDialect::role_body(TileWriter& writer, const Role& role) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  const int threads = role.threads / role.groups;
  writer.set_threads(threads);
  if (threads > 1) {
    const std::string own = role.groups > 1 ? fmt::format(" - group * {}", threads) : "";
    out.line(fmt::format("const int thread = int(threadIdx.x) - {}{};", role.first_thread, own));
    out.line(fmt::format("const int lane = thread % {0}, warp = thread / {0};", kWarp));
  }
  const Uses uses(program, role.body);
  for (std::size_t c = 0; c < program.channels.size(); ++c) {
    if (!uses.channel(c)) continue;
    const Channel& channel = program.channels[c];
    if (channel.slots > 1) out.line(fmt::format("int {}_slot = 0;", channel.name));
    out.line(fmt::format("af_u32 {}_phase = 0;", channel.name));
  }
  writer.declare_tiles(uses.registers());
  if (takes_turns(role.body))
    out.line(fmt::format("if (group == {}) af_named_arrive(1, {});", role.groups - 1, 2 * threads));
  writer.body(role.body);
}

// ---- work -------------------------------------------------------------------------------------

void HopperDialect::work_items(TileWriter& writer, const WorkItems& items) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  const Channel& ring = program.channel(items.ring);
  const bool hands_out = items.part == WorkItems::Part::hands_out;
  if (hands_out)
    hand_out(writer, items);
  else
    take_entry(writer, items);
  if (items.repeats) out.line("const bool careful = entry.w == af_careful;");
  out.line(fmt::format("const int {}_item = {}_slot;", ring.name, ring.name));
  advance(writer, {items.ring});
  out.line("if (entry.w == af_none) break;");
  out.line("const int q_tile = entry.x, h = entry.y;");
  writer.define_entry("entry.z");
  out.line(fmt::format("const int q_begin = q_tile * {};", program.schedule.block_q));
  writer.body(program.sequence.measure);
  std::set<std::string> direct;
  collect_direct(program, items.body, direct);
  writer.head_offsets(&direct);
  writer.body(items.body);
  if (items.part == WorkItems::Part::finishes)
    arrive(writer, fmt::format("{0}_{1} + {0}_item", ring.name, ring.stages[1].name));
  if (hands_out)
    out.line(fmt::format("{}item = int(gridDim.x + atomicAdd(args.counter, 1u));",
                         items.repeats ? "if (is_new) " : ""));
  out.close();
  if (!hands_out) return;
  out.comment("the last workgroup leaves the counters as it found them");
  out.line("__threadfence();");
  out.open("if (atomicAdd(args.counter + 1, 1u) == gridDim.x - 1)");
  out.line("args.counter[0] = 0;");
  out.line("args.counter[1] = 0;");
  out.close();
}

// Which query tile and head an item is.
void HopperDialect::decode_item(TileWriter& writer) const {
  SourceWriter& out = writer.out();
  const ProgramInfo& info = writer.program().info;
  const bool ragged = info.storage.ragged;
  out.line(
      "const int section = item / (section_heads * q_tiles), in_section = item - section * section_heads * "
      "q_tiles;");
  out.line(fmt::format("const int heads_here = max(1, min(section_heads, {}{} - section * section_heads));",
                       ragged ? "" : "batch * ", info.heads));
  out.comment("longest rows first");
  out.line(fmt::format("const int {} = q_tiles - 1 - in_section / heads_here;", ragged ? "place" : "q_tile"));
  out.line("const int head = section * section_heads + in_section % heads_here;");
}

// Items whose place has no rows are passed over: `item` is one that has, or past the last.
void HopperDialect::find_item(TileWriter& writer) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  out.line("int item_tile = 0, item_head = 0, item_entry = 0;");
  out.open("for (; item < items; item = int(gridDim.x + atomicAdd(args.counter, 1u)))");
  decode_item(writer);
  writer.body(program.sequence.find);
  writer.body(program.sequence.measure);
  out.line("if (q_begin < 0 || q_begin >= sq) continue;");
  out.line(fmt::format("item_tile = q_begin / {};", program.schedule.block_q));
  out.line("item_head = head;");
  out.line("item_entry = b;");
  out.line("break;");
  out.close();
}

// The next entry of the ring, posted: what was in doubt when its slot was finished, or the next query tile.
void HopperDialect::hand_out(TileWriter& writer, const WorkItems& items) const {
  SourceWriter& out = writer.out();
  const ProgramInfo& info = writer.program().info;
  const Channel& ring = writer.program().channel(items.ring);
  const std::string name = ring.name;
  const bool ragged = info.storage.ragged;
  // Keys and values of the heads that are worked on together stay in the second-level cache.
  constexpr int kSectionBytes = 40 << 20;
  const int bytes_per_key = (info.head_dim + info.v_head_dim) * size_in_bytes(info.dtype);
  const char* keys = info.storage.page_size ? "longest_k" : ragged ? "longest_k / max(batch, 1)" : "skv";
  out.line(fmt::format("const int items = {}{} * q_tiles;", ragged ? "" : "batch * ", info.heads));
  out.comment("heads in a section: a power of two of key heads whose keys and values fit the cache");
  out.line(fmt::format("const int fitting = {} / max({}, 1);", kSectionBytes / bytes_per_key, keys));
  out.line(fmt::format("const int section_heads = {}{} << (31 - __clz(min(max(fitting, 1), 1 << 20))){};",
                       ragged ? fmt::format("min({}, ", info.heads) : "", info.heads / info.kv_heads,
                       ragged ? ")" : ""));
  out.line("int item = int(blockIdx.x);");
  out.open("for (;;)");
  if (ragged) find_item(writer);
  out.line(fmt::format("af_wait({}, {}_phase ^ 1);", barrier_of(ring, 1), name));
  if (items.repeats) {
    out.line(fmt::format("int4 entry = {};", entry_of(ring)));
    out.line("const bool is_new = entry.w != af_again && item < items;");
    out.open("if (is_new)");
  } else {
    out.line("int4 entry = make_int4(0, 0, 0, af_none);");
    out.open("if (item < items)");
  }
  if (ragged) {
    out.line("entry = make_int4(item_tile, item_head, item_entry, af_usual);");
  } else {
    decode_item(writer);
    out.line(fmt::format("entry = make_int4(q_tile, head % {0}, head / {0}, af_usual);", info.heads));
  }
  out.close();
  if (items.repeats) {
    out.open("else");
    out.comment("all are handed out: what must be computed again is known when the others are finished");
    out.line(fmt::format("int from = {}_slot;", name));
    out.open(fmt::format("for (int n = 1; n < {} && entry.w != af_again; ++n)", ring.slots));
    out.line(fmt::format("from = ({}_slot + n) % {};", name, ring.slots));
    out.line(fmt::format("af_wait({0}_{1} + from, {0}_phase ^ (from > {0}_slot ? 1 : 0));", name,
                         ring.stages[1].name));
    out.line(fmt::format("entry = {}_ring[from];", name));
    out.close();
    out.line(fmt::format("{}_ring[from].w = af_usual;", name));
    out.line("entry.w = entry.w == af_again ? af_careful : af_none;");
    out.close();
  }
  out.line(fmt::format("{} = entry;", entry_of(ring)));
  out.line(fmt::format("af_arrive({});", barrier_of(ring, 0)));
}

void HopperDialect::take_entry(TileWriter& writer, const WorkItems& items) const {
  SourceWriter& out = writer.out();
  const Channel& ring = writer.program().channel(items.ring);
  out.open("for (;;)");
  out.line(fmt::format("af_wait({}, {}_phase);", barrier_of(ring, 0), ring.name));
  out.line(fmt::format("const int4 entry = {};", entry_of(ring)));
  if (items.part != WorkItems::Part::finishes) arrive(writer, barrier_of(ring, 1));
}

void HopperDialect::doubt(TileWriter& writer, const Doubt& doubt) const {
  SourceWriter& out = writer.out();
  const Tile& tile = writer.tile(doubt.tile);
  const std::string ring = writer.program().channel(doubt.ring).name;
  const int groups = writer.program().schedule.groups;
  out.open("if (!careful)");
  out.line("bool found = false;");
  out.line(roll());
  out.line(fmt::format("for (int e = thread; e < {}; e += {}) found |= af_has_nonfinite_{}({});",
                       groups * chunks_in_row(tile), writer.threads(), name(tile.type),
                       chunk_at(writer, tile, tile.rows / groups)));
  out.open(fmt::format("if ({})", any_lane("found")));
  out.line(fmt::format("if (lane == 0) {0}_ring[{0}_item].w = af_again;", ring));
  out.line("__syncwarp();");
  out.close();
  out.close();
}

void HopperDialect::turn(TileWriter& writer, const Turn& turn) const {
  const int groups = writer.program().schedule.groups, threads = 2 * writer.threads();
  writer.out().line(turn.pass ? fmt::format("af_named_arrive(1 + (group + 1) % {}, {});", groups, threads)
                              : fmt::format("af_named_sync(1 + group, {});", threads));
}

// Named barriers 1, 2, ... are the groups' turns.
std::string HopperDialect::group_barrier(const TileWriter& writer) const {
  const int groups = writer.program().schedule.groups;
  return groups > 1 ? fmt::format("af_named_sync({} + group, {});", 1 + groups, writer.threads())
                    : fmt::format("af_named_sync(1, {});", writer.threads());
}

std::string HopperDialect::any_lane(const std::string& condition) const {
  return fmt::format("__any_sync(0xffffffffu, {})", condition);
}

void HopperDialect::mended(TileWriter& writer) const {
  writer.out().line("af_fence_async();");
  writer.out().line("__syncwarp();");
}

// Per-row results. Predicated, not branched: behind a branch on lanes the compiler takes loops, slots and
// descriptors for different in every lane.
void HopperDialect::store(TileWriter& writer, const Store& store) const {
  SourceWriter& out = writer.out();
  const Tile& from = writer.tile(store.from);
  const auto& layout = std::get<FragmentLayout>(from.layout);
  const std::string writes = one_lane_condition(layout);
  writer.open_registers(layout.register_count());
  out.line(fmt::format("const int i = {} + {};", writer.scalar(store.first_row),
                       writer.position(from, TileAxis::row, "r")));
  out.line(fmt::format("af_store_if({}{}i < {}, args.{}_ptr, {} + {} * args.{}_stride_s, {}[r]);", writes,
                       writes.empty() ? "" : " && ", writer.scalar(store.row_limit), store.output,
                       TileWriter::base_of(store.output), int64("i"), store.output, from.name));
  out.close();
}

// ---- channels ---------------------------------------------------------------------------------

void HopperDialect::acquire(TileWriter& writer, const Acquire& acquire) const {
  const Channel& channel = writer.program().channel(acquire.channel);
  const bool is_refill = std::size_t(acquire.stage) + 1 == channel.stages.size();
  const std::string usual = barrier_of(channel, acquire.stage);
  const std::string barrier =
      acquire.careful_stage < 0
          ? usual
          : fmt::format("(careful ? {} : {})", barrier_of(channel, acquire.careful_stage), usual);
  writer.out().line(fmt::format("af_wait({}, {}_phase{});", barrier, channel.name, is_refill ? " ^ 1" : ""));
}

void HopperDialect::signal(TileWriter& writer, const Signal& signal) const {
  if (signal.wrote) writer.out().line("af_fence_async();");
  const std::string barrier = barrier_of(writer.program().channel(signal.channel), signal.stage);
  if (signal.each_thread) return writer.out().line(fmt::format("af_arrive({});", barrier));
  arrive(writer, barrier);
}

void HopperDialect::advance(TileWriter& writer, const Advance& advance) const {
  const Channel& channel = writer.program().channel(advance.channel);
  SourceWriter& out = writer.out();
  if (channel.slots == 1) return out.line(fmt::format("{}_phase ^= 1;", channel.name));
  out.line(fmt::format("{0}_slot = {0}_slot == {1} ? 0 : {0}_slot + 1;", channel.name, channel.slots - 1));
  out.line(fmt::format("{0}_phase ^= {0}_slot == 0;", channel.name));
}

void HopperDialect::put(TileWriter& writer, const Put& put) const {
  const Channel& channel = writer.program().channel(put.channel);
  if (channel.kind != CopyKind::bulk) return CudaDialect::put(writer, put);
  SourceWriter& out = writer.out();
  const Tile& tile = writer.tile(channel.tile);
  if (writer.threads() > 1) out.open("if (lane == 0)");
  out.line(fmt::format("af_expect({}, {});", barrier_of(channel, 0), panels(tile) * panel_bytes(tile)));
  put_boxes(writer, put);
  if (writer.threads() > 1) out.close();
}

// One box a panel; of pages that are smaller than the tile, one for each of them. A page without rows in use
// has no number: a box outside the tensor is zeros.
void HopperDialect::put_boxes(TileWriter& writer, const Put& put) const {
  SourceWriter& out = writer.out();
  const Channel& channel = writer.program().channel(put.channel);
  const Tile& tile = writer.tile(channel.tile);
  const TensorInfo& source = writer.program().expressions.tensor(channel.source);
  const RowMap map = writer.row_map_of(source.name);
  const std::string first = writer.scalar(put.first_row);
  const char* head = source.role == TensorRole::query ? "h" : "g";
  const auto load = [&](int panel, int row, const std::string& from_row, const std::string& entry) {
    out.line(fmt::format("af_bulk_load({} + {}, &args.{}_map, {}, {}, {}, {}, {}, {});",
                         writer.array_of(tile), (panel * tile.rows + row) * panel_columns(tile), source.name,
                         barrier_of(channel, 0), panel * panel_columns(tile), from_row, head, entry,
                         cache_hint(source.role)));
  };
  switch (map.kind) {
    case RowMap::Kind::entry:
      for (int panel = 0; panel < panels(tile); ++panel) load(panel, 0, first, "b");
      return;
    case RowMap::Kind::run:
      for (int panel = 0; panel < panels(tile); ++panel)
        load(panel, 0, fmt::format("{} + {}", map.first, first), "0");
      return;
    case RowMap::Kind::pages:
      break;
  }
  const int together = std::min(tile.rows, map.page_size), count = tile.rows / together;
  const std::string limit = writer.scalar(put.row_limit);
  out.open("");
  out.line(fmt::format("const int row0 = {};", first));
  out.line(fmt::format("int page[{}];", count));
  for (int n = 0; n < count; ++n) {
    const std::string row = n == 0 ? "row0" : fmt::format("(row0 + {})", n * together);
    out.line(fmt::format("page[{}] = -1;", n));
    out.line(fmt::format("if ({} < {}) page[{}] = {};", row, limit, n, writer.page_of(row, map.page_size)));
  }
  const std::string in_page = map.page_size > tile.rows ? fmt::format("row0 % {}", map.page_size) : "0";
  for (int n = 0; n < count; ++n)
    for (int panel = 0; panel < panels(tile); ++panel)
      load(panel, n * together, in_page, fmt::format("page[{}]", n));
  out.close();
}

void HopperDialect::map_slot(TileWriter& writer, const MapSlot& map) const { cuda::map_slot(writer, map); }

void HopperDialect::bulk_store(TileWriter& writer, const BulkStore& store) const {
  SourceWriter& out = writer.out();
  const TileProgram& program = writer.program();
  const TileId slot = program.channel(store.channel).tile;
  const Tile& tile = *std::ranges::find_if(program.tiles, [&](const Tile& t) { return t.memory_of == slot; });
  std::string first = writer.scalar(store.first_row), head = "h", batch = writer.entry_of_output();
  std::string condition = writer.threads() > 1 ? "lane == 0" : "";
  if (store.unless_doubted.valid()) {
    // Read anew: a careful run before it leaves no registers for them.
    out.line(
        fmt::format("const int4 done = {0}_ring[{0}_item];", program.channel(store.unless_doubted).name));
    condition += fmt::format("{}done.w != af_again", condition.empty() ? "" : " && ");
    first = fmt::format("done.x * {}", program.schedule.block_q);
    head = "done.y";
    batch = "done.z";
  }
  if (store.row_limit.valid()) return store_sequence(writer, store, tile);
  if (!condition.empty()) out.open(fmt::format("if ({})", condition));
  for (int panel = 0; panel < panels(tile); ++panel)
    out.line(fmt::format("af_bulk_store(&args.{}_map, {} + {}, {}, {}, {}, {}, af_evict_first);",
                         store.output, writer.array_of(tile), panel * tile.rows * panel_columns(tile),
                         panel * panel_columns(tile), first, head, batch));
  out.line("af_bulk_commit();");
  out.line("af_bulk_wait_read<0>();");
  if (!condition.empty()) out.close();
}

// A warp's: whole tiles by the copy engine, the rest of a sequence chunk by chunk.
void HopperDialect::store_sequence(TileWriter& writer, const BulkStore& store, const Tile& tile) const {
  SourceWriter& out = writer.out();
  const std::string first = writer.scalar(store.first_row), limit = writer.scalar(store.row_limit);
  const RowMap map = writer.row_map_of(store.output);
  const int per_row = chunks_in_row(tile), chunk = kSwizzleChunkBytes / size_in_bytes(tile.type);
  const bool doubts = store.unless_doubted.valid();
  out.open(
      fmt::format("if ({}{} + {} <= {})", doubts ? "done.w != af_again && " : "", first, tile.rows, limit));
  out.open("if (lane == 0)");
  for (int panel = 0; panel < panels(tile); ++panel)
    out.line(fmt::format("af_bulk_store(&args.{}_map, {} + {}, {}, {} + {}, h, 0, af_evict_first);",
                         store.output, writer.array_of(tile), panel * tile.rows * panel_columns(tile),
                         panel * panel_columns(tile), map.first, first));
  out.line("af_bulk_commit();");
  out.line("af_bulk_wait_read<0>();");
  out.close();
  out.close();
  out.open(doubts ? "else if (done.w != af_again)" : "else");
  out.open(fmt::format("for (int e = thread; e < ({} - {}) * {}; e += {})", limit, first, per_row,
                       writer.threads()));
  out.line(fmt::format("const int i = {} + e / {};", first, per_row));
  out.line(
      fmt::format("*reinterpret_cast<uint4*>(reinterpret_cast<{}*>(args.{}_ptr) + {} + e % {} * {}) = "
                  "*reinterpret_cast<const uint4*>({});",
                  type(tile.type), store.output, writer.row_offset(store.output, "i"), per_row, chunk,
                  chunk_at(writer, tile)));
  out.close();
  out.close();
}

void HopperDialect::bulk_drain(TileWriter& writer) const { writer.out().line("af_bulk_wait<0>();"); }

// Looks at whole chunks first, and mends only what a look has found: tiles without such values cost little.
void HopperDialect::scrub(TileWriter& writer, const Scrub& scrub) const {
  SourceWriter& out = writer.out();
  const Tile& tile = writer.tile(scrub.tile);
  const std::string at = chunk_at(writer, tile);
  const std::string loop =
      fmt::format("for (int e = thread; e < {}; e += {})", tile.rows * chunks_in_row(tile), writer.threads());
  out.open("");
  out.line("bool found = false;");
  out.line("#pragma unroll 8");
  out.line(fmt::format("{} found |= af_has_nonfinite_{}({});", loop, name(tile.type), at));
  out.open(fmt::format("if ({})", any_lane("found")));
  out.line("#pragma unroll 1");
  out.line(fmt::format("{} af_scrub_{}({});", loop, name(tile.type), at));
  out.line(raise(scrub.flag));
  out.close();
  out.line("af_fence_async();");
  out.close();
}

// ---- products ---------------------------------------------------------------------------------

// k steps of 16: rows of 128 bytes hold four of them, the next panel the next four. Operands whose rows
// contract move on by 16 rows.
void HopperDialect::mma(TileWriter& writer, const Mma& mma) const {
  SourceWriter& out = writer.out();
  const Tile &acc = writer.tile(mma.accumulator), &a = writer.tile(mma.a), &b = writer.tile(mma.b);
  const int unit_k = writer.program().unit.k, steps = a.cols / unit_k;
  const int step_units = unit_k * size_in_bytes(b.type) / kDescriptorUnit;
  const int steps_per_panel = kRowBytes / (unit_k * size_in_bytes(b.type));
  const auto along_rows = [&](const Tile& tile) {
    return fmt::format("k % {0} * {1} + k / {0} * {2}", steps_per_panel, step_units,
                       panel_bytes(tile) / kDescriptorUnit);
  };
  constexpr int kRowsTogether = 8;  // rows of one repetition of the swizzle
  out.open("");
  if (a.space == Space::shared)
    out.line(fmt::format(
        "const af_u64 a = af_descriptor({}{}, 16, {});", writer.array_of(a),
        writer.program().schedule.groups > 1 ? fmt::format(" + group * {}", acc.rows * panel_columns(a)) : "",
        kRowsTogether * kRowBytes));
  out.line(fmt::format("const af_u64 b = af_descriptor({}, {}, {});", writer.array_of(b),
                       mma.b_rows_contract ? panel_bytes(b) : 16, kRowsTogether * kRowBytes));
  out.line(fmt::format("af_keep({});", acc.name));
  out.line("af_wgmma_fence();");
  writer.open_loop(fmt::format("for (int k = 0; k < {}; ++k)", steps));
  const std::string b_at = mma.b_rows_contract
                               ? fmt::format("b + k * {}", unit_k * kRowBytes / kDescriptorUnit)
                               : "b + (" + along_rows(b) + ")";
  const std::string accumulate = mma.cleared ? "k != 0" : "1";
  if (a.space == Space::shared)
    out.line(fmt::format("af_wgmma_ss_{}({}, a + ({}), {}, {});", name(b.type), acc.name, along_rows(a), b_at,
                         accumulate));
  else
    out.line(fmt::format(
        "af_wgmma_rs_{0}({1}, {2}[4 * k], {2}[4 * k + 1], {2}[4 * k + 2], {2}[4 * k + 3], {3}, {4});",
        name(b.type), acc.name, a.name, b_at, accumulate));
  out.close();
  out.line("af_wgmma_commit();");
  out.close();
  if (!mma.issued) mma_wait(writer, {0, mma.accumulator});
}

void HopperDialect::mma_wait(TileWriter& writer, const MmaWait& wait) const {
  if (wait.after.valid()) {
    const Tile& after = writer.tile(wait.after);
    const int registers = std::get<FragmentLayout>(after.layout).register_count() * wait.after_quarters / 4;
    for (int r = std::max(0, registers - 2); r < registers; ++r)
      writer.out().line(fmt::format("af_after({}[{}]);", after.name, r));
  }
  writer.out().line(fmt::format("af_wgmma_wait<{}>();", wait.pending));
  writer.out().line(fmt::format("af_keep({});", writer.tile(wait.ready).name));
}

// Here, beside the products that run: the compiler would move it to where the accumulator is needed next.
void HopperDialect::scale_rows(TileWriter& writer, const ScaleRows& scale) const {
  CudaDialect::scale_rows(writer, scale);
  writer.out().line(fmt::format("af_keep({});", writer.tile(scale.tile).name));
}

// An accumulator into its rows of a shared tile, 16 columns at a time. Addresses are computed here, once a
// query tile: they must not take registers from the loop.
void HopperDialect::move(TileWriter& writer, const Move& move) const {
  const Tile &to = writer.tile(move.to), &from = writer.tile(move.from);
  SourceWriter& out = writer.out();
  const std::string pack = fmt::format("af_pack_{}", name(to.type));
  const auto pair = [&](const std::string& reg) {
    return fmt::format("{0}({1}[{2}], {1}[{2} + 1])", pack, from.name, reg);
  };
  const int chunk = kSwizzleChunkBytes / size_in_bytes(to.type), pairs = panel_columns(to) / chunk / 2;
  out.open("");
  out.line("const af_u32 l = af_u32(af_opaque(lane));");
  out.comment("of 16 columns a lane addresses one chunk of a row; chunks change places by the row's number");
  out.line(fmt::format("{}* const row = {} + ({}) * {};", type(to.type), writer.array_of(to),
                       rows_of_group(writer, "warp * 16 + l % 16"), panel_columns(to)));
  out.line("const af_u32 places = l / 16 ^ l % 8;");
  writer.open_loop(fmt::format("for (int n = 0; n < {}; ++n)", from.cols / 16));
  out.line(
      fmt::format("af_stmatrix(row + n / {0} * {1} + ((n % {0} * 2) ^ places) * {2}, {3}, {4}, {5}, {6});",
                  pairs, to.rows * panel_columns(to), chunk, pair("8 * n"), pair("8 * n + 2"),
                  pair("8 * n + 4"), pair("8 * n + 6")));
  out.close();
  if (from.cols / 8 % 2 != 0) {
    const int last = from.cols / 8 - 1;
    for (int half : {0, 1})
      out.line(fmt::format(
          "*reinterpret_cast<af_u32*>({} + {}) = {};", writer.array_of(to),
          TileWriter::shared_index(to, rows_of_group(writer, fmt::format("warp * 16 + l / 4 + {}", 8 * half)),
                                   fmt::format("{} + l % 4 * 2", last * 8)),
          pair(std::to_string(4 * last + 2 * half))));
  }
  out.close();
}

}  // namespace attnfuse::cuda
