// Expression surgery for lowering: substitute leaves, split by axes, peel constant factors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// Whether the program's mask leaves out any pair.
bool is_masked(const Graph& graph);

// Copies the elementwise cone of `root` inside `graph`, with some nodes replaced.
NodeId substitute(Graph& graph, NodeId root, const std::map<NodeId, NodeId>& replacements);

// Every i32 sum of multiples of i and j that is converted to f32 as the sum of what the thread brings and
// what the register brings (i_at, j_at; i_step, j_step: see Map): the second is a constant in an unrolled
// loop.
NodeId split_positions(Graph& graph, NodeId root);

// root = factor * rest with a positive constant factor at the top (1 when there is none).
struct Peeled {
  NodeId rest;
  double factor = 1;
};
Peeled peel_factor(const Graph& graph, NodeId root);

// Subexpressions that do not change along some axes of the score tile, and are worth computing once:
// scalars ({b,h,g} only), per row (i but not j), per column (j but not i). `root` is the expression that
// reads them as variables.
struct Hoisted {
  struct Value {
    std::string name;
    NodeId value;
  };
  std::vector<Value> scalars, rows, columns;
  NodeId root;
};

// Hoists from one root after another. A value that several roots contain is hoisted once, by the first; every
// name ends in a number of its own.
class Hoister {
 public:
  explicit Hoister(Graph& graph) : graph_(&graph) {}
  // `prefix` starts the names of hoisted values that have no better one.
  Hoisted run(NodeId root, const std::string& prefix);

 private:
  NodeId visit(NodeId id);
  NodeId place(NodeId id);
  NodeId rebuild(NodeId id);
  NodeId keep(NodeId value, std::vector<Hoisted::Value>& values, const std::string& suffix);

  Graph* graph_;
  std::string prefix_;
  Hoisted result_;
  int count_ = 0;
  std::map<NodeId, NodeId> done_;
};

}  // namespace attnfuse
