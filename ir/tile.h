// TileProgram: one kernel as explicit statements on tiles. A schedule writes it, emitters translate it
// statement by statement and decide nothing.
//
// Expressions (scalars, loop bounds, element maps) are nodes of `expressions`, a graph whose leaves are
//   Variable{name}   a scalar (Let, loop variable, "h", "g", "b") or the element of the tile of that name
//   Index{axis}      the coordinate: tile.row.base + row, or tile.col.base + col; b, h, g are scalars
//   SizeOf, Constant, Gather (captured or constant tensors), Input, Partner, Reduce (inside a channel's
//   transform)
//
// A portable program is one body that all threads run in step. A program with roles (asynchronous machines)
// has groups of threads that run bodies of their own and hand the slots of channels round.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/schedule.h"
#include "ir/target.h"

namespace attnfuse {

struct TileId {
  int value = -1;
  bool valid() const { return value >= 0; }
  bool operator==(const TileId&) const = default;
};

struct ChannelId {
  int value = -1;
  bool valid() const { return value >= 0; }
};

enum class Space : std::uint8_t { shared, registers };

// Coordinate on one axis of a tile: position + base (the name of a scalar; empty = 0).
struct TileDim {
  Axis axis;
  std::string base;
};

struct Tile {
  std::string name;
  DType type = DType::f32;
  Space space = Space::registers;
  int rows = 1, cols = 1;  // padded to what the matrix unit needs; a vector has 1 row or 1 column
  TileDim row, col;
  std::variant<FragmentLayout, SharedLayout, OpaqueLayout> layout;
  TileId memory_of = {};  // valid: the tile has no memory of its own, it lies in that one's
};

// One hand-over of a slot: `arrivals` signals complete it (and the bytes of a bulk copy, for the first
// stage).
struct ChannelStage {
  std::string name;
  int arrivals = 1;
};

// A scalar, the same for all threads at hand.
struct Let {
  std::string name;
  NodeId value;
  bool changes = false;
};

// Columns of a query, key or value expression that a thread computes together. With `partner` = n the columns
// d and d + n, where d runs over [begin, end) (in steps of two if n = 1); without partner each d of [begin,
// end) alone.
//   x, y      the source's elements at d and d + n: variables of the expressions
//   shared    values that do not depend on the head, nor on the elements
//   first, second   the values at d and d + n
// Input and Partner leaves, where no partner serves all of them, are read one by one.
struct ColumnGroup {
  int begin = 0, end = 0, partner = 0;
  std::vector<Let> shared;
  NodeId first, second;
};

// A shared tile that is refilled while others are used: the one asynchrony concept.
//   put   asks for rows of the source     take  waits until they are visible to all threads
// direct: put loads and stores.   staged: put loads into registers, take stores.   async: put starts a
// background copy, take waits for it. Every take is also a barrier for the whole workgroup.
// Rows at or past the limit and columns at or past the tensor's last extent are zero. A channel that fills
// registers is put once and its take is no more than a barrier.
//
// With stages the channel is a ring of `slots` copies of the tile, and each slot goes round a cycle of
// owners: stage 0 hands a filled slot on, the last stage gives it back to who fills it. Every role that
// touches the channel has a cursor of its own; statements that name the tile mean the slot at the cursor.
//   acquire  waits until the slot has completed a stage     signal  takes part in completing one
//   advance  moves the cursor to the next slot
struct Channel {
  std::string name;
  TileId tile;
  TensorId source;   // query, key or value of `expressions`
  NodeId transform;  // expression of Input and Partner(Input) of the source and of reductions over d, rounded
                     // to the tile's type; invalid = copy
  CopyKind kind = CopyKind::direct;
  int vector_bytes = 16;
  int slots = 1;
  std::vector<ChannelStage> stages = {};  // empty: put and take, with barriers of the workgroup
  // The transform by columns, for MapSlot; empty: put transforms.
  std::vector<ColumnGroup> columns = {};
};

struct Statement;
using Body = std::vector<Statement>;

struct Put {
  ChannelId channel;
  NodeId first_row, row_limit;
};
struct Take {
  ChannelId channel;
};
// Waits for a stage of the slot; in a careful run (WorkItems) for another one.
struct Acquire {
  ChannelId channel;
  int stage;
  int careful_stage = -1;
};
struct Signal {
  ChannelId channel;
  int stage;
  bool wrote = false;  // after plain stores to the slot, which the copy engine or the matrix unit reads next
  // Every thread signals what it did itself; else one of each warp does for the others.
  bool each_thread = false;
};
struct Advance {
  ChannelId channel;
};
struct Fill {
  TileId tile;
  double value;
};
// registers <-> shared, converting the type. An opaque tile moves to registers through the shared tile `via`,
// some columns at a time.
struct Move {
  TileId to, from;
  TileId via = {};
};
// accumulator[r,c] += sum_k a[r,k] * b[c,k]  (b_rows_contract: b[k,c]). With unit.transposed the
// instruction sees b as its m side.
// issued: the product runs beside what follows, up to an MmaWait that leaves fewer groups pending; the
// accumulator must not be touched until then. cleared: the accumulator is written, not added to.
struct Mma {
  TileId accumulator, a, b;
  bool b_rows_contract = false;
  bool issued = false, cleared = false;
};
struct MmaWait {
  int pending = 0;
  TileId ready;  // the accumulator that may be touched from here on
  // What must be computed while the products run: the wait may not move before these registers.
  TileId after = {};
  int after_quarters = 4;
};
// Element by element; `to` may be read. Besides the coordinates i and j, their parts: "j_at" is what the
// thread brings, "j_step" what the register brings.
// A register tile in parts: quarters of the registers in order, [begin, end).
struct Quarters {
  int begin = 0, end = 4;
};
struct Map {
  TileId to;
  NodeId value;
  Quarters part = {};
};
// to[r] = op over c of from[r,c], per row; `accumulate` starts from to[r]; `across_lanes` combines the lanes
// that share a row (else each lane keeps its part).
// With a value, what is reduced is that expression of the element, as in a Map.
struct RowReduce {
  TileId to, from;
  ReduceOp op;
  bool accumulate = false, across_lanes = true;
  NodeId value = {};
};
// Combines the partial values that lanes hold of a per-row vector of tile `of` (a RowReduce that left lanes
// apart).
struct LaneReduce {
  TileId tile, of;
  ReduceOp op;
};
// to[r,c] = from[r, c'], where c' is the column that `partner` pairs with c. With an output, its rows from
// first_row on pass the elements from thread to thread, for layouts that keep a pair in several lanes; they
// are overwritten.
struct PairColumns {
  TileId to, from;
  Partner partner;
  std::string output = {};
  NodeId first_row = {}, row_limit = {};
};
struct ScaleRows {
  TileId tile, factor;
};  // tile[r,c] *= factor[r]; an opaque tile takes a shared factor
enum class Scope : std::uint8_t { warp, workgroup };
struct Barrier {
  Scope scope = Scope::workgroup;
};  // warp: the rows a warp owns are only touched by itself
// Replaces NaN and infinity in a shared tile by zero and raises the workgroup's flag if there was one.
struct Scrub {
  TileId tile;
  std::string flag;
};
// Writes rows [first_row, row_limit) of an output, converting the type. An opaque tile goes through the
// shared tile `via`, some columns at a time.
struct Store {
  TileId from;
  std::string output;
  NodeId first_row, row_limit;
  TileId via;
};
// Gives back what Scrub removed, to the rows that may see it. If the flag is up: output[i,d] += v[j,d] for
// every key j in [begin, end) that `mask` (over i, j) allows and whose v[j,d] is not finite. Follows the
// Store of the same rows.
// With a shared tile `in`, the threads of the role (one warp) mend it there, before they store it.
// With a register tile `to` the sums are added to it: the output's rows, or those of `in`, only pass them
// from thread to thread and are overwritten. No flag: there may be some.
// Where weights may be negative or zero it is NaN (`is_nan`): the sign of infinity would be theirs.
struct Restore {
  std::string output, flag;
  TensorId value;
  NodeId mask, begin, end, first_row, row_limit;
  TileId in = {}, to = {};
  bool is_nan = false;
};
// Writes rows [first_row, row_limit) of an output [b, heads, rows, d], whose elements are expressions of the
// source's elements in the same row; no tile is involved. A thread takes columns that need each other, for
// all heads of the workgroup: what these share is computed once per row and d.
struct MapRows {
  TensorId source;
  std::string output;
  NodeId first_row, row_limit;
  ColumnGroup columns;
};
// Numbers from a range of whole numbers: each result is its values at `variable` in [begin, end), i32,
// combined by imin, imax or iadd; of an empty range what changes no other value. `each` comes before the
// values and defines scalars that they read. With `shared`, an i32 tile of one element a thread, the threads
// of the workgroup divide the range among them and all have the results; without, each thread walks it
// alone.
struct Fold {
  struct Result {
    std::string name;
    ScalarOp op;
    NodeId value;
  };
  std::string variable;
  NodeId begin, end;
  Body each;
  std::vector<Result> results;
  TileId shared = {};
};
// One thread writes scalars to neighbouring elements of an i32 output: those at `at`, one index a dimension
// but the last, from the start of the last.
struct StoreScalars {
  std::string output;
  std::vector<NodeId> at, values;
};
// Outputs from those of the shares that workgroups computed (TileProgram::shares): rows of o [batch * shares,
// heads, rows, d] weighted by exp of their lse [batch * shares, heads, rows], for the rows and the head of
// this workgroup.
struct MergeShares {
  std::string from, from_lse;
  NodeId first_row, row_limit;
};
// Kernels that follow each other on a queue: lets the next one start, or waits until what the ones before
// wrote is there. The machine may do without both.
struct Chain {
  bool wait = false;
};
struct If {
  NodeId condition;
  Body body;
};
// Changes a uniform scalar that a Let declared as changing.
struct Assign {
  std::string name;
  NodeId value;
};
struct While {
  NodeId condition;
  Body body;
};
// Visits the tiles begin, begin+1, ... end-1 except those for which `skip` (a node over the variable `next`)
// holds.
//   next = first tile to visit;  if (next < end) before;
//   for (variable = next; variable < end; variable = next) { next = tile after it to visit; body }
struct TileLoop {
  std::string variable, next;
  NodeId begin, end, skip;
  Body before, body;
};

// ---- programs with roles -------------------------------------------------------------------------
// A group of threads that runs a body of its own. With `groups` > 1 the threads form that many groups of
// equal size, told apart by the scalar "group"; thread, warp and register tiles then belong to the group.
// registers: what each thread of the role may use; roles inside the same 128 threads agree on it.
struct Role {
  std::string name;
  int first_thread = 0, threads = 1;
  int groups = 1;
  int registers = 0;
  Body body;
};
struct Roles {
  std::vector<Role> roles;
};
// The workgroup stays and computes query tiles one after the other, the longest first. One role hands them
// out through the channel `ring` (hands_out), every other role reads them: both run `body` once per tile,
// with the scalars q_begin, h, g and b set. The role that `finishes` a tile keeps its entry of the ring until
// the body is through. A tile that Doubt was cast on is handed out again when it is finished, and the boolean
// scalar "careful" holds in its second run.
struct WorkItems {
  ChannelId ring;
  enum class Part : std::uint8_t { hands_out, takes, finishes } part = Part::takes;
  bool repeats = false;  // Doubt may be cast; the same in every role
  Body body;
};
// The tile of work is repeated, unless this is its careful run, if the output tile, in shared memory, holds a
// value that is not finite. One row of each group is looked at: a value tile that holds such an element
// spoils that column in every row of the product, with weight 0 too.
struct Doubt {
  ChannelId ring;
  TileId tile;
};
// Groups of a role issue their matrix products in turn: waits for the own turn, or passes it on.
struct Turn {
  bool pass = false;
};
// The slot's rows, from first_row on, through the columns of the channel's transform, in place: after the
// rows of the source have come as they are.
struct MapSlot {
  ChannelId channel;
  NodeId first_row;
};
// Writes the slot's rows from first_row on to an output with the copy engine, then waits until the slot may
// be filled again. Rows and columns outside the output are dropped. With a ring `unless_doubted` the rows are
// those of its entry, and not written if it says that they are computed again. With a row_limit, rows from
// there on belong to another sequence: the warp stores those before it itself.
struct BulkStore {
  ChannelId channel;
  std::string output;
  NodeId first_row;
  ChannelId unless_doubted = {};
  NodeId row_limit = {};
};
// Waits until what this thread wrote with the copy engine has arrived.
struct BulkDrain {};

struct Statement {
  using Kind = std::variant<Let, Assign, Put, Take, Acquire, Signal, Advance, Fill, Move, Mma, MmaWait, Map,
                            PairColumns, RowReduce, LaneReduce, ScaleRows, Barrier, Scrub, Store, BulkStore,
                            BulkDrain, Restore, MapRows, MergeShares, Fold, StoreScalars, Chain, If, While,
                            TileLoop, Roles, WorkItems, Doubt, Turn, MapSlot>;
  Kind kind;

  // Compiled once, in tile_statement.cpp: copies and destruction of so many alternatives are the larger part
  // of compiling a pass.
  template <class Alternative>
  Statement(Alternative alternative);  // NOLINT(google-explicit-constructor): a Let is a statement
  Statement(const Statement& other);
  Statement(Statement&& other) noexcept;
  Statement& operator=(const Statement& other);
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();
};

// One field of the argument block that every backend's kernel receives (same bytes everywhere).
struct ParamField {
  enum class Kind : std::uint8_t {
    pointer,  // u64 device address of `tensor`
    stride,   // i64, elements, of dimension `dim` of `tensor` as it lies in memory (never the last one of q,
              // k, v, o, lse)
    size,     // i32 run-time size: batch, sq, skv, total_q, total_k
    tensor_map,  // 128 bytes, 64-byte aligned: `tensor` as the copy engine sees it (Device::encode): d, s, h
                 // and b, or the page
    counter,     // u64 device address of two u32 that are zero before and after every launch
    shares,      // i32, see TileProgram::shares
  };
  Kind kind;
  std::string name;    // "q_ptr", "q_stride_h", "skv"
  std::string tensor;  // "q", "k", "v", an output or a captured tensor
  int dim = 0;
  Size size = Size::sq;
  int offset = 0;                     // bytes from the start of the block
  int box_rows = 0, box_columns = 0;  // tensor_map: what one copy moves
  bool operator==(const ParamField&) const = default;
};

int size_in_bytes(ParamField::Kind kind);
int alignment(ParamField::Kind kind);

struct OutputInfo {
  std::string name;  // "o" [b,h,i,d]; "lse", "lse2" and "max_logit" [b,h,i]
  DType dtype;
  bool has_dim;  // has the head-dim axis
};

// What a call of the program writes, in the order of its arguments.
std::vector<OutputInfo> outputs_of(const Graph& graph);

// What one workgroup of a program without query tiles takes: block_q rows, of `heads` heads.
struct Rows {
  Size size = Size::sq;
  int all_heads = 1;
  int heads = 1;
};

// Where sequences have lengths of their own (Storage): statements that define scalars of the sequence at
// hand, ahead of the body, or of each work item's.
struct SequenceScalars {
  // Ragged: b and q_begin from `place`, below q_tiles. A place without rows is left alone.
  Body find;
  // sq, skv, and where the sequence starts in ragged tensors, from b. They read longest_q and longest_k, what
  // a launch says that no sequence exceeds.
  Body measure;
};

struct TileProgram {
  TileProgram();  // These are written out in tile.cpp: in every file that has one they cost seconds to
                  // compile.
  TileProgram(const TileProgram& other);
  TileProgram(TileProgram&& other) noexcept;
  TileProgram& operator=(const TileProgram& other);
  TileProgram& operator=(TileProgram&& other) noexcept;
  ~TileProgram();

  std::string name;                                // kernel entry point
  std::string about = "fused attention, forward";  // for the header comment
  ProgramInfo info;
  Target target;
  Schedule schedule;
  Footprint footprint;
  Graph expressions;  // its tensors are the program's, plus constant tables
  std::vector<OutputInfo> outputs;
  std::vector<ParamField> params;
  int param_bytes = 0;
  MatrixUnit unit;
  std::optional<Rows> rows;  // absent: a workgroup takes the block_q query rows of one head
  // Workgroups divide the keys of a query tile: the scalar "shares" says into how many parts, "share" which
  // one is at hand. `batch` counts shares, and so do outputs: entry b * shares + share of them belongs to b.
  bool shares = false;
  std::vector<Tile> tiles;
  std::vector<Channel> channels;
  SequenceScalars sequence;
  Body body;
  std::vector<std::string>
      description;  // lines for the header comment: spec, tile classes, how to regenerate

  const Tile& tile(TileId id) const { return tiles.at(std::size_t(id.value)); }
  const Channel& channel(ChannelId id) const { return channels.at(std::size_t(id.value)); }
  int threads() const { return schedule.warps * target.warp_size; }
  // Values and outputs too wide for one workgroup: several compute the same weights, each for columns of its
  // own, from the scalar "value_begin" on. The last may begin before the one ahead of it ends; both write the
  // same there.
  int value_columns() const { return schedule.value_columns > 0 ? schedule.value_columns : info.v_head_dim; }
  int value_parts() const { return (info.v_head_dim + value_columns() - 1) / value_columns(); }
  // Workgroups side by side for one batch entry and tile of rows.
  int head_groups() const;
  // Whether workgroups take rows of keys, not of queries.
  bool has_key_rows() const { return rows && rows->size == Size::skv; }
};

// Workgroups are numbered block = (b * heads + h) * q_tiles + t, longest tiles first (t counts down);
// q_tiles = ceil(sq / block_q). With value parts h counts those of every head. With `rows`, h counts groups
// of heads and t tiles of rows, upwards. Ragged: block = h * q_tiles + t, where sequence b has the tiles from
// cu_seqlens_q[b] / block_q + b on, of q_tiles = total_q / block_q + batch, which is enough for any division
// into sequences; for rows of keys the same with theirs. A launch uses grid (min(n, max_grid_x), ceil(n /
// max_grid_x), 1) and the kernel returns when block >= n. A program with roles is launched with min(n,
// compute_units) workgroups.

// Bytes of a shared tile (of one slot), a multiple of 16; and of the workgroup's flag beside the tiles.
int shared_bytes(const Tile& tile);
inline constexpr int kFlagBytes = 16;
// Programs with roles: bytes of one slot, and of the barriers of all stages with the ring of work items.
int slot_bytes(const Tile& tile);
inline constexpr int kBookkeepingBytes = 512, kWorkItemBytes = 16;

// Of PairColumns in a tile with this layout: which register holds the partner of each one's element. Empty if
// some pair lies in several lanes.
std::vector<int> paired_registers(const FragmentLayout& layout, const Partner& partner);

Diagnostics verify(const TileProgram& program);
std::string print(const TileProgram& program);
// One line; loops and conditions without their bodies.
std::string headline(const TileProgram& program, const Statement& statement);

}  // namespace attnfuse
