// TileRanges: what i32 and boolean values may be on one score tile, as expressions of the tile's bounds.
// Interval analysis whose endpoints are symbols: i lies in [q_begin, q_end - 1], j in [k_begin, k_end - 1],
// values of b and h alone are points. Sound for every tile with q_begin < q_end and k_begin < k_end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "passes/linear.h"

namespace attnfuse {

// A scalar that stands for the least (imin) or greatest (imax) of an i32 value over the tile's rows, or keys,
// on which alone it depends.
struct TileFold {
  std::string name;
  ScalarOp op;
  Axis axis;
  NodeId value;
};

class TileRanges {
 public:
  // With `folds` what only data decides is known where it depends on one axis: by scalars that are added
  // there.
  explicit TileRanges(Folder& folder, std::vector<TileFold>* folds = nullptr)
      : folder_(folder), folds_(folds) {}

  struct Range {
    Linear lo, hi;
  };
  // Nothing when the value depends on i or j in a way that only data decides.
  std::optional<Range> range(NodeId i32);
  std::optional<Range> range(const Linear& x);

  // may: some element of the tile can be true. must: all are.
  struct Truth {
    NodeId may, must;
  };
  Truth truth(NodeId boolean);
  Truth at_most_zero(const Linear& x);

  // An i32 comparison, or an f32 comparison of whole numbers, of the form "difference <= 0", "= 0" or "/= 0".
  struct Comparison {
    enum class Kind : std::uint8_t { at_most_zero, zero, nonzero } kind;
    Linear difference;
  };
  std::optional<Comparison> comparison(NodeId boolean);

  Linear linear(NodeId i32);
  Folder& folder() { return folder_; }

 private:
  std::optional<Range> find_range(NodeId i32);
  std::optional<Range> small_range(NodeId i32);  // whose ends are nodes
  std::optional<Range> product(NodeId x, NodeId y);
  std::optional<Range> quotient(NodeId x, NodeId y);
  std::optional<Range> remainder(NodeId x, NodeId y);
  std::optional<Range> masked_bits(NodeId x, NodeId mask);
  std::optional<Range> shifted_right(NodeId x, NodeId amount);
  std::optional<Range> extremum(ScalarOp op, NodeId x, NodeId y);
  std::optional<Range> choice(NodeId condition, NodeId x, NodeId y);
  std::optional<Range> element(NodeId gather);
  // A captured element whose indices count blocks of rows and keys.
  struct BlockElement {
    NodeId is_one;   // the tile lies inside one block
    NodeId element;  // that block's
  };
  std::optional<BlockElement> block_element(NodeId gather);
  std::optional<Range> folded(NodeId i32);
  std::optional<Truth> folded_truth(NodeId boolean);
  Truth find_truth(NodeId boolean);
  Truth compared(const Comparison& comparison);
  // The i32 value that an f32 value equals, if it is whole by construction.
  NodeId whole(NodeId f32);

  NodeId op(ScalarOp op, std::initializer_list<NodeId> operands) { return folder_.apply(op, operands); }
  NodeId node(const Linear& x) { return node_of(folder_, x); }
  NodeId negated(NodeId boolean) { return op(ScalarOp::logical_not, {boolean}); }

  Folder& folder_;
  std::vector<TileFold>* folds_;
  std::map<NodeId, std::optional<Range>> ranges_;
  std::map<NodeId, Truth> truths_;
  std::map<NodeId, Linear> linear_;
};

// Of b and h alone: one value for the whole workgroup.
bool is_scalar(const Node& node);
// Reads a captured element that differs from row to row or from key to key.
bool reads_data(const Graph& graph, NodeId root);

}  // namespace attnfuse
