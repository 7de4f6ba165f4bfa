#include "ir/algorithm.h"

#include "ir/adjacency.h"

#include <algorithm>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/topological_sort.hpp>

namespace attnfuse {
namespace {

using Nodes = Graph::Adjacency::List;
using Vertex = Nodes::vertex_descriptor;

std::vector<NodeId> node_ids(const std::vector<Vertex>& vertices) {
  std::vector<NodeId> ids;
  ids.reserve(vertices.size());
  for (Vertex vertex : vertices) ids.push_back({std::uint32_t(vertex)});
  return ids;
}

// What a depth-first search from the roots reaches, in execution order; it does not go below nodes where
// `stop` holds.
template <class Stop>
std::vector<NodeId> reached(const Graph& graph, const std::vector<NodeId>& roots, Stop stop) {
  const Nodes& nodes = graph.adjacency().list;
  std::vector<boost::default_color_type> colors(graph.size(), boost::white_color);
  const auto color_map = boost::make_iterator_property_map(colors.begin(), get(boost::vertex_index, nodes));
  for (NodeId root : roots) {
    ATTNFUSE_CHECK(root.value < graph.size(), "a root is not a node of the graph");
    if (colors[root.value] == boost::white_color)
      boost::depth_first_visit(nodes, root.value, boost::default_dfs_visitor{}, color_map, stop);
  }
  // Operands have smaller numbers than their users.
  std::vector<NodeId> ids;
  for (std::uint32_t v = 0; v < graph.size(); ++v)
    if (colors[v] != boost::white_color) ids.push_back({v});
  return ids;
}

}  // namespace

// Edges run user -> operand, and a topological sort emits targets first: its output is execution order.
std::vector<NodeId> execution_order(const Graph& graph) {
  std::vector<Vertex> order;
  order.reserve(graph.size());
  boost::topological_sort(graph.adjacency().list, std::back_inserter(order));
  return node_ids(order);
}

bool is_elementwise(const Node& node) {
  return as<Apply>(node) || as<Gather>(node) || as<Constant>(node) || as<SizeOf>(node) || as<Index>(node);
}

std::vector<NodeId> cone(const Graph& graph, const std::vector<NodeId>& roots) {
  return reached(graph, roots, [](Vertex, const Nodes&) { return false; });
}

std::vector<NodeId> partners(const Graph& graph, NodeId root) {
  std::vector<NodeId> found = cone(graph, {root});
  std::erase_if(found, [&](NodeId id) { return as<Partner>(graph.node(id)) == nullptr; });
  return found;
}

bool reduces(const Graph& graph, NodeId root) {
  const std::vector<NodeId> nodes = cone(graph, {root});
  return std::ranges::any_of(nodes, [&](NodeId id) { return as<Reduce>(graph.node(id)) != nullptr; });
}

std::vector<NodeId> elementwise_cone(const Graph& graph, const std::vector<NodeId>& roots) {
  return reached(graph, roots, [](Vertex v, const Nodes& nodes) { return !is_elementwise(nodes[v]); });
}

std::map<NodeId, int> use_counts(const Graph& graph, const std::vector<NodeId>& roots) {
  std::map<NodeId, int> counts;
  for (NodeId user : cone(graph, roots)) {
    counts.try_emplace(user, 0);
    for (NodeId operand : graph.operands(user)) ++counts[operand];
  }
  return counts;
}

Graph rewrite_live(const Graph& from, const Rewrite& rewrite) {
  Graph to(from.info());
  for (const TensorInfo& tensor : from.tensors()) to.add_tensor(tensor);
  std::vector<NodeId> map(from.size());
  for (NodeId id : cone(from, from.outputs())) {
    std::vector<NodeId> operands = from.operands(id);
    for (NodeId& operand : operands) operand = map[operand.value];
    NodeId& mapped = map[id.value];
    mapped = rewrite(to, from, id, operands);
    if (mapped.valid()) continue;
    // Types and axes follow from the operands, which a rewrite may have changed; those of leaves are given.
    const Node& node = from.node(id);
    mapped = operands.empty() ? to.add_like(node, operands) : to.add(node.kind, operands, node.where);
  }
  return to;
}

}  // namespace attnfuse
