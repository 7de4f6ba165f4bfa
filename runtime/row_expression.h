// Values of an elementwise expression along one axis, for the reference: the transforms along d, the scores
// and the mask along j. Nodes without the axis are evaluated once a row, nodes of that axis alone once.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse {

// Indices by Axis and sizes by Size.
struct Position {
  std::int64_t index[6] = {};
  std::int64_t& operator[](Axis axis) { return index[std::size_t(axis)]; }
  std::int64_t operator[](Axis axis) const { return index[std::size_t(axis)]; }
};
struct SizeValues {
  std::int64_t value[7] = {};
  std::int64_t operator[](Size size) const { return value[std::size_t(size)]; }
};
SizeValues size_values(const ProgramInfo& info, const Sizes& sizes);
std::int64_t extent_of(const Extent& extent, const SizeValues& sizes);

// The column that is paired with d, and one more value onto a reduction.
std::size_t partner_of(const Partner& partner, std::size_t d);
double combined(ReduceOp op, double so_far, double value);

// Captured tensors of a graph by TensorId; constant tables need no entry.
using CapturedTensors = std::vector<const HostTensor*>;

class RowExpression {
 public:
  // Keeps references to graph and captured. `length`: elements of a row. `in_f32`: every f32 intermediate is
  // rounded to f32.
  RowExpression(const Graph& graph, NodeId root, Axis along, std::int64_t length, const SizeValues& sizes,
                const CapturedTensors& captured, bool in_f32);

  // The values at `at`, whose entry for the axis is ignored; `leaf` is the row of the one node that is not
  // elementwise (an input, the scores). Valid until the next call.
  std::span<const double> operator()(const Position& at, std::span<const double> leaf = {});

  // What the leaf `node` is instead, read at every call: for expressions of two leaves.
  void bind(NodeId node, std::span<const double> leaf) { bound_[node] = leaf; }

  // Does the value need that leaf?
  bool reads_leaf() const { return reads_leaf_; }

 private:
  struct Step {
    NodeId node;
    std::vector<std::size_t> operands;  // step numbers
    bool wide = false;                  // one value per element, else one
    bool fixed = false;                 // the same in every row
    std::vector<double> values;
  };

  void evaluate(Step& step, const Position& at, std::span<const double> leaf);
  double element(const Step& step, std::size_t operand, std::size_t x) const {
    const Step& from = steps_[step.operands[operand]];
    return from.values[from.wide ? x : 0];
  }
  double gathered(const Step& step, TensorId tensor, std::size_t x) const;
  double reduced(const Step& step, ReduceOp op) const;

  const Graph* graph_;
  Axis along_;
  std::size_t length_;
  SizeValues sizes_;
  const CapturedTensors* captured_;
  bool in_f32_;
  bool reads_leaf_ = false;
  bool started_ = false;
  std::map<NodeId, std::span<const double>> bound_;
  std::vector<Step> steps_;  // in execution order; the last one is the root
  std::vector<double> row_;
};

}  // namespace attnfuse
