// TileWriter: walks a tile program and writes C-like text. It decides nothing: statements say what happens,
// layouts say which thread holds what, the dialect says how it is spelled.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "backends/common/dialect.h"
#include "backends/common/source_writer.h"
#include "ir/storage.h"
#include "ir/tile.h"

namespace attnfuse {

// What the leaves of an expression read at one place of the kernel.
struct Surroundings {
  std::function<std::string(const std::string& name)> variable;  // scalar or tile element
  std::function<std::string(Axis axis)> index;
  std::function<std::string(NodeId id)> input;  // Input, Partner of an Input, or Reduce
};

class TileWriter {
 public:
  TileWriter(const TileProgram& program, const Dialect& dialect)
      : program_(program), dialect_(dialect), threads_(program.threads()) {}

  std::string write();

  const TileProgram& program() const { return program_; }
  const Dialect& dialect() const { return dialect_; }
  SourceWriter& out() { return out_; }
  const Tile& tile(TileId id) const { return program_.tile(id); }

  // ---- expressions --------------------------------------------------------------------------
  // Writes temporaries for values used more than once and returns the text of the root.
  std::string expression(NodeId root, const Surroundings& surroundings);
  // A uniform scalar.
  std::string scalar(NodeId root);
  // Reads the coordinate on the axis, or one of its parts (see write(Map)).
  bool reads_coordinate(NodeId root, Axis axis) const;
  bool reads_index(NodeId root, Axis axis) const;
  bool reads_variable(NodeId root, std::string_view name) const;

  // ---- coordinates --------------------------------------------------------------------------
  // Position in the tile of register `reg` (text) of this thread, on one axis: the thread's part, the
  // register's part, and their sum.
  std::string thread_position(const Tile& tile, TileAxis axis) const;
  std::string register_position(const Tile& tile, TileAxis axis, const std::string& reg) const;
  std::string position(const Tile& tile, TileAxis axis, const std::string& reg) const;
  // Register of `vector` (per row or per column of `over`) that belongs to register `reg` of `over`.
  std::string vector_index(const Tile& over, TileAxis axis, const std::string& reg) const;
  // Element of a shared tile: index into its array.
  static std::string shared_index(const Tile& tile, const std::string& row, const std::string& col);
  // for (int r = 0; r < count; ++r), unrolled.
  void open_registers(int count, const std::string& variable = "r");
  void open_loop(const std::string& header);    // with the dialect's unroll line before it
  void open_rolled(const std::string& header);  // with its line for loops that run rarely

  // Offset (64-bit scalar) of the head that this workgroup reads or writes: "q_base", "o_base", ...
  static std::string base_of(const std::string& tensor) { return tensor + "_base"; }
  // Where rows of a tensor lie, and the 64-bit offset of the row at `position` of the sequence at hand. Only
  // rows that exist may be asked for.
  RowMap row_map_of(const std::string& tensor) const;
  std::string row_offset(const std::string& tensor, const std::string& position) const;
  // The page that holds the row at `position`.
  std::string page_of(const std::string& position, int page_size) const;

  // A shared tile's array: its name, or the slot at the cursor of its channel.
  std::string array_of(const Tile& tile) const;
  // Threads that run the body at hand: the workgroup's, or a role's (of one group).
  int threads() const { return threads_; }
  void set_threads(int threads) { threads_ = threads; }

  // ---- parts of a kernel ----------------------------------------------------------------------
  // thread_row, thread_col: where each thread's elements of these tiles are; and the tiles' registers.
  void declare_tiles(const std::vector<const Tile*>& tiles);
  // b, and entry_b where outputs have entries for shares of the keys; from the number of that entry.
  void define_entry(const std::string& at);
  // h, and value_begin where workgroups divide the columns of values; from the number among all of these.
  void define_head(const std::string& at);
  bool has_value_columns(const std::string& tensor) const;
  std::string entry_of_output() const;
  // The head of keys and values, and where the heads of tensors (of all, or these) start; reads h and b.
  void head_offsets(const std::set<std::string>* tensors = nullptr);

  // ---- generic leaves -----------------------------------------------------------------------
  void put_elements(const Put& put);
  // Element d of row i or j of the source, transformed: writes what it needs and returns its text.
  std::string source_element(const Channel& channel);
  // The same where the row's base is defined and its reductions have these names.
  std::string transformed_element(const Channel& channel, const std::map<NodeId, std::string>& reduced);
  // Reductions over d that the roots contain, of the source's row that starts at offset `row`: writes a loop
  // for each and returns the names of the results. Every thread loads the row for itself; or, with a part,
  // neighbouring lanes reduce what they hold and exchange it.
  struct RowPart {
    struct Columns {
      std::string array, first;  // elements, and the column of the first
    };
    std::vector<Columns> columns;
    int width;               // of each
    int lanes;               // a power of two
    bool is_padded = false;  // some columns lie past the row's end
  };
  std::map<NodeId, std::string> reductions(const std::vector<NodeId>& roots, const TensorInfo& source,
                                           const std::string& row, const RowPart* part = nullptr);
  // Whether so many neighbouring lanes may share the roots' reductions of `rows` rows, one row after the
  // other.
  bool may_share(const std::vector<NodeId>& roots, int lanes, int rows) const;
  void multiply_elements(const Mma& mma);  // fused multiply-adds from shared memory
  void move_elements(const Move& move);
  void scrub_elements(const Scrub& scrub);
  void store_elements(const Store& store);

  void body(const Body& statements);

 private:
  void write(const Let& s);
  void write(const Put& s) { dialect_.put(*this, s); }
  void write(const Take& s) { dialect_.take(*this, s); }
  void write(const Acquire& s) { dialect_.acquire(*this, s); }
  void write(const Signal& s) { dialect_.signal(*this, s); }
  void write(const Advance& s) { dialect_.advance(*this, s); }
  void write(const MmaWait& s) { dialect_.mma_wait(*this, s); }
  void write(const BulkStore& s);
  void write(const MapSlot& s) { dialect_.map_slot(*this, s); }
  void write(const BulkDrain&) { dialect_.bulk_drain(*this); }
  void write(const Roles& s) { dialect_.roles(*this, s); }
  void write(const WorkItems& s) { dialect_.work_items(*this, s); }
  void write(const Doubt& s) { dialect_.doubt(*this, s); }
  void write(const Turn& s) { dialect_.turn(*this, s); }
  void write(const Assign& s);
  void write(const While& s);
  void write(const Fill& s) { dialect_.fill(*this, s); }
  void write(const Move& s) { dialect_.move(*this, s); }
  void write(const Mma& s) { dialect_.mma(*this, s); }
  void write(const Map& s);
  void write(const PairColumns& s);
  void write(const RowReduce& s);
  void write(const LaneReduce& s);
  void write(const ScaleRows& s) { dialect_.scale_rows(*this, s); }
  void write(const Barrier& s) { out_.line(dialect_.barrier(s.scope)); }
  void write(const Scrub& s) { dialect_.scrub(*this, s); }
  void write(const Store& s);
  void write(const Restore& s);
  void write(const MapRows& s);
  void write(const MergeShares& s);
  void write(const Fold& s);
  void write(const StoreScalars& s);
  void write(const Chain& s) { dialect_.chain(*this, s); }
  void write(const If& s);
  void write(const TileLoop& s);

  void size_scalars();
  void workgroup_scalars();
  void row_scalars();  // of a program that divides rows
  void define_base(const std::string& tensor, const char* head);
  struct PairCall {
    std::string function, factor;
  };
  std::optional<PairCall> pair_call(const Map& s) const;
  bool open_coordinates(const Tile& tile, NodeId value);
  void combine_lanes(const Tile& vector, ReduceOp op, const FragmentLayout& layout);
  std::string element_of(const std::string& name, const Tile& over, const std::string& reg);
  // The value of an expression at register `reg` of a tile; after open_coordinates.
  std::string value_at(NodeId value, const Tile& over, const std::string& reg);
  void open_elements(const Tile& tile, NodeId row_limit);
  void close_elements();

  const TileProgram& program_;
  const Dialect& dialect_;
  SourceWriter out_;
  int threads_;
  std::map<std::string, std::string> lane_parts_;  // expression -> name of the scalar that holds it
};

// Index text along d of the element that a Partner pairs with element `d`.
std::string partner_index(const Partner& partner, const std::string& d);
// The C type of a value: "float", "int", "bool".
const char* c_type(ValueType type);
std::string combine(ReduceOp op, const std::string& a, const std::string& b);
// Text of a number as an f32 literal, infinities included.
std::string literal(double value);
// Text of (index / divisor) % extent for mixed-radix digits of `axis`, as a sum of strides.
std::string digit_sum(const std::vector<Digit>& digits, TileAxis axis, const std::string& index);
// text * factor and a + b of index texts, without what changes nothing: times("n", 1) is "n".
std::string times(const std::string& text, int factor);
std::string plus(const std::string& a, const std::string& b);
// Holds in one of the lanes that share a register's element: "lane % 4 == 0", empty when none share.
std::string one_lane_condition(const FragmentLayout& layout);

}  // namespace attnfuse
