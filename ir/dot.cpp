#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/text.h"

namespace attnfuse {
namespace {

// Where values with given axes are computed; the first row that covers them counts.
struct Placement {
  Axes axes;
  std::string_view name, color;
};
constexpr Placement kPlacements[] = {
    {{}, "scalar", "#eeeeee"},
    {{Axis::b, Axis::h, Axis::g}, "per head", "#d9d9d9"},
    {{Axis::d}, "table", "#fff2ae"},
    {{Axis::b, Axis::h, Axis::i}, "per query row", "#cbd5e8"},
    {{Axis::b, Axis::h, Axis::i, Axis::d}, "query tile", "#a6cee3"},
    {{Axis::b, Axis::g, Axis::h, Axis::j}, "per key column", "#fdcdac"},
    {{Axis::b, Axis::g, Axis::h, Axis::j, Axis::d}, "key or value tile", "#fdb462"},
    {{Axis::b, Axis::g, Axis::h, Axis::i, Axis::j}, "score tile", "#b3e2cd"},
};

const Placement& placement(Axes axes) {
  for (const Placement& row : kPlacements)
    if (axes.within(row.axes)) return row;
  static constexpr Placement kNone{{}, "no tile", "#fb8072"};
  return kNone;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

// Edges are drawn from operand to user, so that the picture reads downwards; operand positions where order
// matters.
std::string dot(const Graph& graph) {
  std::string text =
      fmt::format("digraph \"{}\" {{\n  node [shape=box, style=filled, fontname=\"monospace\"];\n",
                  escaped(graph.info().name));
  for (NodeId id : execution_order(graph)) {
    const Node& node = graph.node(id);
    const Placement& where = placement(node.axes);
    text += fmt::format("  n{} [label=\"%{} {}\\n{} {}\", tooltip=\"{}\", fillcolor=\"{}\"];\n", id.value,
                        id.value, escaped(label(graph, id)), name(node.type), to_string(node.axes),
                        where.name, where.color);
    const std::vector<NodeId> operands = graph.operands(id);
    for (std::size_t k = 0; k < operands.size(); ++k)
      text += fmt::format("  n{} -> n{}{};\n", operands[k].value, id.value,
                          operands.size() > 1 ? fmt::format(" [label=\"{}\"]", k) : "");
  }
  return text + "}\n";
}

}  // namespace attnfuse
