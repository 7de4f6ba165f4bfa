// Transforms of queries and keys, captured tensors, what happens to weights and outputs.
#include <algorithm>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"
#include "ir/algorithm.h"

namespace attnfuse::conformance {
namespace {

using Schedules = Mutation::Schedules;

NodeId i32(Graph& graph, double value) { return graph.constant(value, ValueType::i32); }

bool replace_in_keys_and_queries(TileProgram& program, const Rule& rule) {
  const bool queries = replace_in_transforms(program, rule, TensorRole::query);
  return replace_in_transforms(program, rule, TensorRole::key) || queries;
}

NodeId without_query_offset(Graph& graph, NodeId id) {
  const bool is_offset = is_apply(graph, id, ScalarOp::isub) &&
                         is_size(graph, graph.operand(id, 0), Size::skv) &&
                         is_size(graph, graph.operand(id, 1), Size::sq);
  return is_offset ? i32(graph, 0) : NodeId{};
}

// A captured element, with one index replaced.
NodeId gathered(Graph& graph, NodeId id, Axis from, const std::function<NodeId(NodeId index)>& to) {
  const auto* gather = as<Gather>(graph.node(id));
  if (gather == nullptr || graph.tensor(gather->tensor).role != TensorRole::captured) return {};
  const Gather kind = *gather;
  std::vector<NodeId> operands = graph.operands(id);
  bool changed = false;
  for (NodeId& operand : operands)
    if (is_index(graph, operand, from)) {
      operand = to(operand);
      changed = true;
    }
  return changed ? graph.add(kind, operands) : NodeId{};
}

// ---- the mutations ------------------------------------------------------------------------------

bool rope_pairs_other_elements(TileProgram& program) {
  return replace_in_keys_and_queries(program, [](Graph& graph, NodeId id) {
    const auto* partner = as<Partner>(graph.node(id));
    if (partner == nullptr) return NodeId{};
    const RotaryPairs other =
        partner->pairs == RotaryPairs::half ? RotaryPairs::interleaved : RotaryPairs::half;
    return graph.add(Partner{other, partner->count}, {graph.operand(id, 0)});
  });
}

bool rope_turns_back(TileProgram& program) {
  return replace_in_keys_and_queries(program, [](Graph& graph, NodeId id) {
    return is_apply(graph, id, ScalarOp::sin)
               ? graph.apply(ScalarOp::neg, {graph.apply(ScalarOp::sin, {graph.operand(id, 0)})})
               : NodeId{};
  });
}

bool query_offset_missing(TileProgram& program) {
  return replace_in_transforms(program, without_query_offset, TensorRole::query);
}

bool query_offset_missing_ahead(TileProgram& program) {
  return replace_in_statements(program, without_query_offset, [](const Statement& statement) {
    return std::holds_alternative<MapRows>(statement.kind);
  });
}

bool norm_without_epsilon(TileProgram& program) {
  const Rule rule = [](Graph& graph, NodeId id) {
    if (!is_apply(graph, id, ScalarOp::rsqrt)) return NodeId{};
    const NodeId sum = graph.operand(id, 0);
    if (!is_apply(graph, sum, ScalarOp::add)) return NodeId{};
    return graph.apply(ScalarOp::rsqrt, {graph.operand(sum, 0)});
  };
  const bool transforms = replace_in_keys_and_queries(program, rule);
  return replace_in_statements(program, rule) || transforms;
}

bool gate_of_another_head(TileProgram& program) {
  return replace_in_statements(
      program,
      [](Graph& graph, NodeId id) {
        return gathered(graph, id, Axis::h,
                        [&](NodeId h) { return graph.apply(ScalarOp::idiv, {h, i32(graph, 2)}); });
      },
      [&](const Statement& statement) {
        const auto* map = std::get_if<Map>(&statement.kind);
        return map != nullptr && program.tile(map->to).name.starts_with("o");
      });
}

bool bias_of_the_first_head(TileProgram& program) {
  const int group = program.info.heads / program.info.kv_heads;
  if (group == 1) return false;
  return replace_in_statements(program, [&](Graph& graph, NodeId id) {
    return gathered(graph, id, Axis::h, [&](NodeId h) {
      const NodeId size = i32(graph, group);
      return graph.apply(ScalarOp::imul, {graph.apply(ScalarOp::idiv, {h, size}), size});
    });
  });
}

bool bias_of_the_row(TileProgram& program) {
  return replace_in_statements(
      program,
      [](Graph& graph, NodeId id) {
        return gathered(graph, id, Axis::j, [&](NodeId) { return graph.index(Axis::i); });
      },
      [&](const Statement& statement) { return map_to(program, statement, "s") != nullptr; });
}

bool dropout_by_tile(TileProgram& program) {
  return replace_in_statements(program, [&](Graph& graph, NodeId id) {
    if (!is_apply(graph, id, ScalarOp::philox)) return NodeId{};
    const std::vector<NodeId> x = graph.operands(id);
    const NodeId in_tile = graph.apply(ScalarOp::imod, {x[3], i32(graph, program.schedule.block_k)});
    return graph.apply(ScalarOp::philox, {x[0], x[1], x[2], in_tile});
  });
}

bool dropout_unscaled(TileProgram& program) {
  const auto has_philox = [&](const Statement& statement) {
    const auto* map = std::get_if<Map>(&statement.kind);
    return map != nullptr && std::ranges::any_of(cone(program.expressions, {map->value}), [&](NodeId id) {
             return is_apply(program.expressions, id, ScalarOp::philox);
           });
  };
  return replace_in_statements(
      program,
      [](Graph& graph, NodeId id) {
        if (!is_apply(graph, id, ScalarOp::select)) return NodeId{};
        const std::vector<NodeId> x = graph.operands(id);
        if (as<Constant>(graph.node(x[1])) == nullptr) return NodeId{};
        return graph.apply(ScalarOp::select, {x[0], graph.constant(1), x[2]});
      },
      has_philox);
}

constexpr Mutation kMutations[] = {
    {.name = "rope-pairs-other-elements",
     .broken = "rope pairs neighbours instead of halves, or halves instead of neighbours",
     .family = "rope",
     .program = rope_pairs_other_elements,
     .schedules = Schedules::portable},
    {.name = "rope-turns-back",
     .broken = "rope turns by minus the angle",
     .family = "rope",
     .program = rope_turns_back,
     .schedules = Schedules::portable},
    {.name = "query-offset-missing",
     .broken = "queries stand at i, not at i + skv - sq",
     .family = "decode",
     .program = query_offset_missing,
     .schedules = Schedules::portable},
    {.name = "query-offset-missing-ahead",
     .broken = "queries that are transformed ahead of attention stand at i",
     .family = "rotation",
     .program = query_offset_missing_ahead},
    {.name = "norm-without-epsilon",
     .broken = "a norm forgets its epsilon",
     .family = "norm",
     .program = norm_without_epsilon,
     .schedules = Schedules::portable},
    {.name = "gate-of-another-head",
     .broken = "an output is gated by the tensor's head h / 2",
     .family = "after",
     .among = "gated",
     .program = gate_of_another_head},
    {.name = "bias-of-the-first-head",
     .broken = "heads that share keys share the first one's bias",
     .family = "groups",
     .program = bias_of_the_first_head},
    {.name = "bias-of-the-row",
     .broken = "a captured element of key j is read at i",
     .family = "captured",
     .program = bias_of_the_row},
    {.name = "dropout-by-tile",
     .broken = "dropout counts keys from the start of their tile",
     .family = "after",
     .among = "dropout",
     .program = dropout_by_tile},
    {.name = "dropout-unscaled",
     .broken = "what dropout leaves keeps its scale",
     .family = "after",
     .among = "dropout",
     .program = dropout_unscaled},
};

}  // namespace

std::span<const Mutation> value_mutations() { return kMutations; }

}  // namespace attnfuse::conformance
