// What differentiate() does, in three files: the forward pass as the backward sees it and the whole
// (differentiate.cpp), one node at a time (differentiate_nodes.cpp), and what its users contribute to a
// value's gradient (differentiate_sums.cpp). No one else uses it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "passes/split_backward.h"

namespace attnfuse {

// What is known of one normalization, and the tensors that the forward pass saves of it.
struct ScoreRow {
  NodeId attend;                      // the product of its weights
  NodeId o, lse, row_sum, max_key;    // saved; in the gradient graph
  NodeId lse_gradient, max_gradient;  // what reaches the log-sum-exp and the largest score
};

// Where a value is one of many: its own axes, and those along which it is the same, though other things are
// not.
struct Positions {
  Axes axes;
  Size row = Size::head_dim;  // how long d is, where it is an axis
  bool operator==(const Positions&) const = default;
};

// A part of the gradient of one value, in the gradient graph: of all users that give it at the same positions
// and in the same kernel. Those at different positions may not be added before they are summed to the value's
// own, and those of different kernels only where both are in memory.
struct Contribution {
  Positions at;
  BackwardPart part;
  NodeId value;
};

class Differentiator {
 public:
  explicit Differentiator(const Graph& from);

  Result<Graph> run();

 private:
  using Op = ScalarOp;
  using Nodes = std::vector<NodeId>;

  NodeId op(Op op, NodeId x, NodeId y) { return to_.apply(op, {x, y}); }
  NodeId select(NodeId condition, NodeId x, NodeId y) { return to_.apply(Op::select, {condition, x, y}); }
  NodeId sum_over_d(NodeId x) { return to_.add(Reduce{ReduceOp::sum}, {x}); }
  NodeId row_tensor(std::string name, TensorRole role, bool has_dim, DType dtype = DType::f32);

  void check_names();
  void check_discrete();
  void find_rows();
  void find_roots();
  void mark_active();
  void recompute(NodeId id);
  NodeId weights(NodeId id);

  void contribute(NodeId target, NodeId value, const Positions& at);
  Positions positions(NodeId id, const Positions& given = {}) const;
  NodeId summed(NodeId id, const Contribution& contribution);
  NodeId total(NodeId id);
  std::vector<Contribution> gradients(NodeId id);
  NodeId mask_of(const Contribution& contribution);
  TensorId input_of(NodeId value) const;
  NodeId reached(TensorId tensor);

  void propagate(NodeId id);
  void propagate_output(NodeId id, const std::string& name);
  void propagate_apply(NodeId id, Op op, const Contribution& gradient);
  void propagate_gather(NodeId id, TensorId tensor);
  void propagate_reduce(NodeId id, ReduceOp op, NodeId gradient);
  void propagate_attend(NodeId id, NodeId gradient);
  void propagate_normalize(NodeId id, NormalizeKind kind);
  void propagate_scores(NodeId id, NodeId gradient);
  void add_outputs();
  Graph simplified() const;

  const NodeId& copy(NodeId id) const { return copies_[id.value]; }
  const Node& node(NodeId id) const { return from_.node(id); }

  const Graph& from_;
  const Nodes live_;
  Graph to_;
  Nodes copies_;  // of each value of the program: how the gradient graph has it
  std::vector<bool> active_;
  std::vector<std::vector<Contribution>> contributions_;
  Nodes totals_;
  std::map<NodeId, ScoreRow> rows_;     // by normalization
  std::map<TensorId, NodeId> roots_;    // the transformed query, key or value, by the tensor it is made of
  std::map<TensorId, NodeId> reached_;  // whether a row of the tensor got any gradient
  std::map<TensorId, NodeId> inputs_;   // gradients of query, key and value
  std::map<TensorId, Nodes> scattered_;
  NodeId mask_;
  NodeId first_gradient_;  // those before it are values of the program
  BackwardParts parts_;    // of to_
  Diagnostics mistakes_;
};

}  // namespace attnfuse
