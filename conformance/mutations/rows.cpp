// Rows of scores: their maximum, their sum, what becomes of them.
#include <algorithm>
#include <limits>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"

namespace attnfuse::conformance {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Schedules = Mutation::Schedules;

NodeId f32(Graph& graph, double value) { return graph.constant(value, ValueType::f32); }

// The map to `tile` whose value is `op` at the top gets this value.
template <class Value>
bool change_map(TileProgram& program, std::string_view tile, ScalarOp op, Value value) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (const Map* map = map_to(program, statement, tile);
        map != nullptr && is_apply(program.expressions, map->value, op)) {
      std::get<Map>(statement.kind).value = value(program.expressions, map->value);
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

// After every product into this tile, its elements become `value` of themselves.
template <class Value>
bool after_product(TileProgram& program, std::string_view tile, Value value) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    const auto* mma = std::get_if<Mma>(&statement.kind);
    const TileId into =
        mma != nullptr && program.tile(mma->accumulator).name == tile ? mma->accumulator : TileId{};
    out.push_back(std::move(statement));
    if (!into.valid() || std::holds_alternative<OpaqueLayout>(program.tile(into).layout)) return;
    Graph& graph = program.expressions;
    const NodeId element =
        graph.variable(program.tile(into).name, ValueType::f32, {Axis::b, Axis::h, Axis::i, Axis::j});
    out.emplace_back(Map{into, value(graph, element)});
    changed = true;
  });
  return changed;
}

NodeId saturated(Graph& graph, NodeId x) {
  return graph.apply(ScalarOp::max, {graph.apply(ScalarOp::min, {x, f32(graph, 65504)}), f32(graph, -65504)});
}

// In 256ths, rounded down.
NodeId coarse(Graph& graph, NodeId x) {
  const NodeId steps = graph.apply(ScalarOp::floor, {graph.apply(ScalarOp::mul, {x, f32(graph, 256)})});
  return graph.apply(ScalarOp::mul, {steps, f32(graph, 1.0 / 256)});
}

bool is_sink_term(const TileProgram& program, const Statement& statement) {
  const Graph& graph = program.expressions;
  const Map* map = map_to(program, statement, "row_sum");
  return map != nullptr && is_apply(graph, map->value, ScalarOp::add) &&
         is_variable(graph, graph.operand(map->value, 0), "row_sum");
}

// ---- the mutations ------------------------------------------------------------------------------

bool empty_row_unguarded(TileProgram& program) {
  return change_map(program, "row_max_safe", ScalarOp::select,
                    [](Graph& graph, NodeId guarded) { return graph.operand(guarded, 2); });
}

bool rescale_unguarded(TileProgram& program) {
  return change_map(program, "row_factor", ScalarOp::exp2, [](Graph& graph, NodeId factor) {
    NodeId unguarded = factor;
    replace(graph, unguarded, [](Graph& g, NodeId id) {
      return is_variable(g, id, "row_max_safe") ? g.variable("row_max", ValueType::f32, g.node(id).axes)
                                                : NodeId{};
    });
    return unguarded;
  });
}

bool maximum_starts_finite(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* fill = std::get_if<Fill>(&statement.kind); fill != nullptr && fill->value == -kInfinity) {
      fill->value = -50000;
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool maximum_by_lane(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* reduce = std::get_if<RowReduce>(&statement.kind);
        reduce != nullptr && reduce->op != ReduceOp::sum && reduce->across_lanes) {
      reduce->across_lanes = false;
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool sum_by_lane(TileProgram& program) {
  return erase_statements(program.body,
                          [](const Statement& s) { return std::holds_alternative<LaneReduce>(s.kind); });
}

bool sum_not_rescaled(TileProgram& program) {
  return erase_statements(program.body, [&](const Statement& statement) {
    const Map* map = map_to(program, statement, "row_sum");
    return map != nullptr && is_apply(program.expressions, map->value, ScalarOp::mul);
  });
}

bool output_not_rescaled(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    const auto is_scaling = [](const Statement& s) { return std::holds_alternative<ScaleRows>(s.kind); };
    if (auto* loop = std::get_if<TileLoop>(&statement.kind))
      changed |= erase_statements(loop->body, is_scaling);
    if (auto* loop = std::get_if<While>(&statement.kind)) changed |= erase_statements(loop->body, is_scaling);
    out.push_back(std::move(statement));
  });
  return changed;
}

bool lse_in_base_two(TileProgram& program) {
  return replace_in_statements(program, [](Graph& graph, NodeId id) {
    return is_apply(graph, id, ScalarOp::log) ? graph.apply(ScalarOp::log2, {graph.operand(id, 0)})
                                              : NodeId{};
  });
}

bool lse_without_scale(TileProgram& program) {
  return change_map(program, "row_sum", ScalarOp::add, [](Graph& graph, NodeId lse) {
    NodeId bare = lse;
    replace(graph, bare, [](Graph& g, NodeId id) {
      const bool is_scaled = is_apply(g, id, ScalarOp::mul) && is_variable(g, g.operand(id, 0), "row_max");
      return is_scaled ? g.operand(id, 0) : NodeId{};
    });
    return bare;
  });
}

bool sink_left_out(TileProgram& program) {
  return erase_statements(program.body, [&](const Statement& s) { return is_sink_term(program, s); });
}

bool sink_twice(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (is_sink_term(program, statement)) {
      out.push_back(statement);
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool weights_too_coarse(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    Graph& graph = program.expressions;
    if (map_to(program, statement, "p") != nullptr) {
      auto& map = std::get<Map>(statement.kind);
      map.value = coarse(graph, map.value);
      changed = true;
    }
    const auto* move = std::get_if<Move>(&statement.kind);
    if (move != nullptr && program.tile(move->to).name == "p_shared") {
      const NodeId element =
          graph.variable(program.tile(move->from).name, ValueType::f32, {Axis::b, Axis::h, Axis::i, Axis::j});
      out.emplace_back(Map{move->from, coarse(graph, element)});
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool scores_saturate(TileProgram& program) { return after_product(program, "s", saturated); }
bool output_saturates(TileProgram& program) { return after_product(program, "o", saturated); }

// The step that the largest score is taken in goes ahead of the one that masks.
bool maximum_before_mask(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* loop = std::get_if<TileLoop>(&statement.kind)) {
      Body& body = loop->body;
      const auto masking =
          std::ranges::find_if(body, [&](const Statement& s) { return does_masking(program, s); });
      const auto maximum = std::find_if(masking, body.end(), [](const Statement& s) {
        const auto* reduce = std::get_if<RowReduce>(&s.kind);
        return reduce != nullptr && reduce->op != ReduceOp::sum;
      });
      if (maximum != body.end()) {
        std::rotate(masking, masking + 1, maximum + 1);
        changed = true;
      }
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

constexpr Mutation kMutations[] = {
    {.name = "empty-row-unguarded",
     .broken = "the maximum of a row without keys is subtracted from itself",
     .family = "empty_row",
     .program = empty_row_unguarded},
    {.name = "rescale-unguarded",
     .broken = "a row whose first tiles are masked is rescaled by exp(-inf + inf)",
     .family = "first_tile",
     .program = rescale_unguarded},
    {.name = "maximum-starts-finite",
     .broken = "the running maximum starts at -50000",
     .family = "shift",
     .program = maximum_starts_finite},
    {.name = "maximum-by-lane",
     .broken = "lanes that share a row have maxima of their own",
     .family = "shapes",
     .program = maximum_by_lane},
    {.name = "maximum-before-mask",
     .broken = "max_logit sees masked scores",
     .family = "after",
     .among = "max_logit",
     .program = maximum_before_mask,
     .schedules = Schedules::portable},
    {.name = "sum-by-lane",
     .broken = "lanes that share a row do not add their sums up",
     .family = "shapes",
     .program = sum_by_lane},
    {.name = "sum-not-rescaled",
     .broken = "the row sum keeps its scale when the maximum rises",
     .family = "shapes",
     .program = sum_not_rescaled},
    {.name = "output-not-rescaled",
     .broken = "the accumulator keeps its scale when the maximum rises",
     .family = "shapes",
     .program = output_not_rescaled},
    {.name = "lse-in-base-two",
     .broken = "the LSE adds a logarithm to base 2",
     .family = "shapes",
     .program = lse_in_base_two},
    {.name = "lse-without-scale",
     .broken = "the LSE takes the maximum of unscaled scores",
     .family = "real",
     .program = lse_without_scale},
    {.name = "sink-left-out",
     .broken = "the sink is not in the denominator",
     .family = "sink",
     .program = sink_left_out},
    {.name = "sink-twice",
     .broken = "the sink is in the denominator twice",
     .family = "sink",
     .program = sink_twice},
    {.name = "weights-too-coarse",
     .broken = "weights are rounded to 256ths ahead of the second product",
     .family = "shapes",
     .program = weights_too_coarse},
    {.name = "scores-saturate",
     .broken = "scores saturate where f16 ends",
     .family = "large_logit",
     .program = scores_saturate,
     .schedules = Schedules::portable},
    {.name = "output-saturates",
     .broken = "the accumulator saturates where f16 ends",
     .family = "range",
     .program = output_saturates,
     .schedules = Schedules::portable},
};

}  // namespace

std::span<const Mutation> row_mutations() { return kMutations; }

}  // namespace attnfuse::conformance
