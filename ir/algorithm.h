// Graph algorithms. algorithm.cpp is the only file that calls Boost.Graph's.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// Every node, operands before users.
std::vector<NodeId> execution_order(const Graph& graph);

// The nodes that `roots` depend on (roots included), in execution order.
std::vector<NodeId> cone(const Graph& graph, const std::vector<NodeId>& roots);

// The Partner nodes an expression reads, and whether it reads a reduction over a row.
std::vector<NodeId> partners(const Graph& graph, NodeId root);
bool reduces(const Graph& graph, NodeId root);

// Apply, Gather, Constant, SizeOf, Index: a value at given positions and sizes follows from the operands'
// values there. The other kinds are the leaves of elementwise expressions.
bool is_elementwise(const Node& node);

// The part of the cone that is reached through elementwise nodes alone, leaves included, in execution order.
std::vector<NodeId> elementwise_cone(const Graph& graph, const std::vector<NodeId>& roots);

// Number of uses of each node inside the cone of `roots`.
std::map<NodeId, int> use_counts(const Graph& graph, const std::vector<NodeId>& roots);

// The first Node of a kind, or an invalid id.
template <class Kind>
NodeId find(const Graph& graph) {
  for (std::uint32_t v = 0; v < graph.size(); ++v)
    if (as<Kind>(graph.node({v}))) return {v};
  return {};
}

// Copies the live part of `from` into a new graph with the same program and tensors, node by node in
// execution order. `rewrite` sees each node with its operands already mapped and returns the node that
// replaces it, or an invalid id to copy it as it is.
using Rewrite =
    std::function<NodeId(Graph& to, const Graph& from, NodeId id, std::span<const NodeId> mapped_operands)>;
Graph rewrite_live(const Graph& from, const Rewrite& rewrite);

}  // namespace attnfuse
