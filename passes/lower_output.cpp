// What happens to rows of the output before they are stored: the output expression, on the accumulator's
// registers. Reductions over d become row vectors, partners along d a tile of their own, what is the same for
// a whole row is computed once a row, and the rest is one map.
#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"
#include "passes/forward_lowering.h"

namespace attnfuse {

namespace {

// Registers of a tile up to which a second one finds room beside the output.
constexpr int kRoomyRegisters = 64;

// Reads memory by element, and nothing that the rows decide.
bool is_fetched(const Graph& graph, NodeId root) {
  const Node& node = graph.node(root);
  if (!node.axes.has(Axis::d) || node.type != ValueType::f32) return false;
  bool gathers = false;
  for (NodeId id : cone(graph, {root})) {
    const Node& part = graph.node(id);
    if (as<Attend>(part) || as<Partner>(part) || as<Reduce>(part)) return false;
    const auto* gather = as<Gather>(part);
    gathers = gathers || (gather && graph.tensor(gather->tensor).role == TensorRole::captured);
  }
  return gathers;
}

}  // namespace

// The first such part, as large as it can be.
void ForwardLowering::fetch_for_output(Body& body, TileId tile) {
  if (std::get<FragmentLayout>(program_.tile(tile).layout).register_count() > kRoomyRegisters) return;
  const std::vector<NodeId> nodes = elementwise_cone(g(), {output_root_});
  for (auto id = nodes.rbegin(); id != nodes.rend(); ++id) {
    if (!is_fetched(g(), *id)) continue;
    Tile fetched = program_.tile(tile);
    fetched.name += "_beside";
    const TileId to = add_tile(std::move(fetched));
    add(body, Map{to, *id});
    fetched_[*id] = tile_element(to);
    return;
  }
}

void ForwardLowering::add_output(Body& body, TileId tile, NodeId first_row, NodeId trusted, TileId second) {
  if (!has_output()) return;
  const NodeId own = tile_element(tile), limit = size(Size::sq);
  const Tile rows = program_.tile(tile);
  const auto& layout = std::get<FragmentLayout>(rows.layout);
  std::map<NodeId, NodeId> known = fetched_;
  std::map<NodeId, TileId> results{{attend_, tile}};
  if (second.valid()) {
    swap_heads();
    results[attend_] = second;
    swap_heads();
  }
  std::vector<NodeId> attends;
  for (const auto& [attend, rows_of] : results) {
    known[attend] = tile_element(rows_of);
    attends.push_back(attend);
  }
  // Columns past the head's end add nothing.
  const auto inside = [&](NodeId value, ReduceOp reduce) {
    if (rows.cols == program_.info.v_head_dim) return value;
    const NodeId is_inside = op(ScalarOp::ilt, {g().index(Axis::d), i32(program_.info.v_head_dim)});
    return op(ScalarOp::select, {is_inside, value, f32(identity(reduce))});
  };
  int pairs = 0, reductions = 0;
  const std::vector<NodeId> before = cone(g(), attends);  // pairs and sums of queries and keys, among others
  for (NodeId id : cone(g(), {output_root_})) {
    if (std::ranges::find(before, id) != before.end()) continue;
    if (const auto* found = as<Partner>(g().node(id))) {
      const Partner partner = *found;
      Tile other = rows;
      other.name = fmt::format("{}_pair_{}", rows.name, pairs++);
      const bool in_registers = !paired_registers(layout, partner).empty();
      const TileId from = results.at(g().operand(id, 0));
      const PairColumns pair{add_tile(std::move(other)), from,      partner,
                             in_registers ? "" : "o",    first_row, limit};
      add(body, pair);
      known[id] = tile_element(pair.to);
    }
    if (const auto* found = as<Reduce>(g().node(id))) {
      const ReduceOp reduce = found->op;
      const NodeId value = inside(substitute(g(), g().operand(id, 0), known), reduce);
      const TileId result =
          add_vector(fmt::format("{}_over_d{}", rows.name, reductions++), ValueType::f32, TileAxis::row);
      add(body, RowReduce{result, tile, reduce, false, true, value});
      known[id] = tile_element(result);
    }
  }
  const Hoisted hoisted = hoister_.run(substitute(g(), output_root_, known), "output");
  for (const auto& value : hoisted.scalars) add(body, Let{value.name, value.value});
  for (const auto& value : hoisted.rows)
    add(body, Map{add_vector(value.name, g().node(value.value).type, TileAxis::row), value.value});
  NodeId value = hoisted.root;
  if (trusted.valid()) {
    const NodeId nothing = op(ScalarOp::sub, {own, own});  // 0, or NaN
    const NodeId may_change = op(ScalarOp::logical_or, {trusted, op(ScalarOp::eq, {nothing, f32(0)})});
    value = op(ScalarOp::select, {may_change, value, nothing});
  }
  add(body, Map{tile, value});
}

}  // namespace attnfuse
