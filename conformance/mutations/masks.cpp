// Which keys a row sees, and which tiles of them are visited.
#include <algorithm>

#include "conformance/mutations/edits.h"
#include "conformance/mutations/mutation.h"

namespace attnfuse::conformance {
namespace {

using Schedules = Mutation::Schedules;

NodeId i32(Graph& graph, double value) { return graph.constant(value, ValueType::i32); }
NodeId plus_one(Graph& graph, NodeId id) { return graph.apply(ScalarOp::iadd, {id, i32(graph, 1)}); }

// What is allowed, in the statements that mask.
bool replace_in_masking(TileProgram& program, const Rule& rule) {
  return replace_in_statements(program, rule,
                               [&](const Statement& statement) { return is_masking(program, statement); });
}

// The value of the scalar `name`, wherever it is defined.
template <class Value>
bool change_scalar(TileProgram& program, std::string_view name, Value value) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (let_of(statement, name) != nullptr) {
      NodeId& defined = std::get<Let>(statement.kind).value;
      const NodeId before = defined;
      defined = value(program.expressions, defined);
      changed |= defined != before;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

// ---- the mutations ------------------------------------------------------------------------------

bool window_too_wide(TileProgram& program) {
  return replace_in_masking(program, [](Graph& graph, NodeId id) {
    const bool is_width =
        is_apply(graph, id, ScalarOp::ilt) && as<Constant>(graph.node(graph.operand(id, 1)));
    return is_width ? graph.apply(ScalarOp::ile, {graph.operand(id, 0), graph.operand(id, 1)}) : NodeId{};
  });
}

bool causal_top_left(TileProgram& program) {
  return replace_in_statements(program, [](Graph& graph, NodeId id) {
    const bool is_offset = is_apply(graph, id, ScalarOp::isub) &&
                           is_size(graph, graph.operand(id, 0), Size::skv) &&
                           is_size(graph, graph.operand(id, 1), Size::sq);
    return is_offset ? i32(graph, 0) : NodeId{};
  });
}

bool end_of_keys_seen_through(TileProgram& program) {
  return replace_in_statements(program, [](Graph& graph, NodeId id) {
    if (is_apply(graph, id, ScalarOp::ilt) && is_index(graph, graph.operand(id, 0), Axis::j) &&
        is_size(graph, graph.operand(id, 1), Size::skv))
      return graph.constant(1, ValueType::boolean);
    if (is_apply(graph, id, ScalarOp::isub) && is_size(graph, graph.operand(id, 0), Size::skv) &&
        is_constant(graph, graph.operand(id, 1), 1))
      return graph.apply(ScalarOp::iadd, {graph.operand(id, 0), i32(graph, 1000)});
    return NodeId{};
  });
}

bool mask_by_a_finite_number(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (is_masking(program, statement)) {
      auto& map = std::get<Map>(statement.kind);
      Graph& graph = program.expressions;
      map.value = graph.apply(ScalarOp::select, {graph.operand(map.value, 0), graph.operand(map.value, 1),
                                                 graph.constant(-1e30)});
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool mask_of_the_next_row(TileProgram& program) {
  return replace_in_masking(program, [](Graph& graph, NodeId id) {
    return is_index(graph, id, Axis::i) ? plus_one(graph, id) : NodeId{};
  });
}

bool softcap_after_mask(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* loop = std::get_if<TileLoop>(&statement.kind)) {
      Body& body = loop->body;
      const auto masking =
          std::ranges::find_if(body, [&](const Statement& s) { return does_masking(program, s); });
      const auto capping = std::find_if(body.begin(), masking, [&](const Statement& s) {
        const Map* map = map_to(program, s, "s");
        return map != nullptr && is_apply(program.expressions, map->value, ScalarOp::tanh);
      });
      if (masking != body.end() && capping != masking) {
        std::rotate(capping, masking, masking + 1);
        changed = true;
      }
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

bool dilation_shifted(TileProgram& program) {
  return replace_in_statements(
      program,
      [](Graph& graph, NodeId id) {
        if (!is_apply(graph, id, ScalarOp::imod)) return NodeId{};
        return graph.apply(ScalarOp::imod, {plus_one(graph, graph.operand(id, 0)), graph.operand(id, 1)});
      },
      [](const Statement& statement) { return std::holds_alternative<Map>(statement.kind); });
}

bool full_whatever_the_mask(TileProgram& program) {
  return change_scalar(program, "full", [](Graph& graph, NodeId full) {
    return is_apply(graph, full, ScalarOp::logical_and) ? graph.operand(full, 0) : full;
  });
}

bool full_one_row_early(TileProgram& program) {
  return change_scalar(program, "full", [](Graph& graph, NodeId full) {
    replace(graph, full,
            [](Graph& g, NodeId id) { return is_variable(g, id, "q_begin") ? plus_one(g, id) : NodeId{}; });
    return full;
  });
}

bool full_one_row_late(TileProgram& program) {
  return change_scalar(program, "full", [](Graph& graph, NodeId full) {
    replace(graph, full, [](Graph& g, NodeId id) {
      return is_variable(g, id, "q_end") ? g.apply(ScalarOp::isub, {id, i32(g, 1)}) : NodeId{};
    });
    return full;
  });
}

bool last_key_not_visited(TileProgram& program) {
  return change_scalar(program, "key_end", [](Graph& graph, NodeId end) {
    return graph.apply(ScalarOp::isub, {end, i32(graph, 1)});
  });
}

bool first_key_not_visited(TileProgram& program) {
  return change_scalar(program, "tile_begin", [](Graph& graph, NodeId begin) {
    if (!is_apply(graph, begin, ScalarOp::idiv)) return begin;
    return graph.apply(ScalarOp::idiv, {plus_one(graph, graph.operand(begin, 0)), graph.operand(begin, 1)});
  });
}

bool hole_test_of_the_next_tile(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* loop = std::get_if<TileLoop>(&statement.kind))
      changed |= replace(program.expressions, loop->skip, [&](Graph& graph, NodeId id) {
        return is_variable(graph, id, "k_next") ? plus_one(graph, id) : NodeId{};
      });
    out.push_back(std::move(statement));
  });
  return changed;
}

bool data_bounds_skip_a_row(TileProgram& program) {
  bool changed = false;
  edit_statements(program.body, [&](Statement&& statement, Body& out) {
    if (auto* fold = std::get_if<Fold>(&statement.kind); fold != nullptr && fold->variable == "i") {
      fold->begin = plus_one(program.expressions, fold->begin);
      changed = true;
    }
    out.push_back(std::move(statement));
  });
  return changed;
}

constexpr Mutation kMutations[] = {
    {.name = "window-too-wide",
     .broken = "window(W) keeps W + 1 keys",
     .family = "window",
     .program = window_too_wide},
    {.name = "causal-top-left",
     .broken = "causal aligns the first rows with the first keys",
     .family = "align",
     .program = causal_top_left},
    {.name = "end-of-keys-seen-through",
     .broken = "slots past the last key are keys of zeros",
     .family = "shapes",
     .program = end_of_keys_seen_through},
    {.name = "mask-by-a-finite-number",
     .broken = "masked scores are -1e30",
     .family = "empty_row",
     .program = mask_by_a_finite_number},
    {.name = "mask-of-the-next-row",
     .broken = "a row has the mask of the row after it",
     .family = "masks",
     .program = mask_of_the_next_row},
    {.name = "softcap-after-mask",
     .broken = "masked scores are capped, too",
     .family = "softcap",
     .program = softcap_after_mask,
     .schedules = Schedules::portable},
    {.name = "dilation-shifted",
     .broken = "a dilated mask keeps the neighbours of its keys",
     .family = "masks",
     .program = dilation_shifted},
    {.name = "full-whatever-the-mask",
     .broken = "every tile inside the keys counts as wholly allowed",
     .family = "masks",
     .program = full_whatever_the_mask,
     .schedules = Schedules::portable},
    {.name = "full-one-row-early",
     .broken = "a tile counts as wholly allowed if its second row sees all of it",
     .family = "align",
     .program = full_one_row_early,
     .schedules = Schedules::portable},
    {.name = "full-one-row-late",
     .broken = "a tile counts as wholly allowed if its last row but one sees all of it",
     .family = "window",
     .program = full_one_row_late,
     .schedules = Schedules::portable},
    {.name = "last-key-not-visited",
     .broken = "a tile that holds only the last key counts as empty",
     .family = "shapes",
     .program = last_key_not_visited},
    {.name = "first-key-not-visited",
     .broken = "a tile whose last key alone is seen counts as empty",
     .family = "window",
     .program = first_key_not_visited},
    {.name = "hole-test-of-the-next-tile",
     .broken = "whether a tile between others is empty is asked of the one after it",
     .family = "first_tile",
     .program = hole_test_of_the_next_tile,
     .schedules = Schedules::portable},
    {.name = "data-bounds-skip-a-row",
     .broken = "the kernel that looks for empty tiles leaves out the first row of a tile",
     .family = "data_bounds",
     .program = data_bounds_skip_a_row},
};

}  // namespace

std::span<const Mutation> mask_mutations() { return kMutations; }

}  // namespace attnfuse::conformance
