#include "conformance/mutations/edits.h"

#include <limits>
#include <map>

#include "ir/algorithm.h"
#include "passes/expressions.h"

namespace attnfuse::conformance {
namespace {

// The bodies inside a statement.
void for_each_body(Statement& statement, const std::function<void(Body&)>& visit) {
  std::visit(overloaded{[&](If& s) { visit(s.body); }, [&](While& s) { visit(s.body); },
                        [&](TileLoop& s) {
                          visit(s.before);
                          visit(s.body);
                        },
                        [&](WorkItems& s) { visit(s.body); }, [&](Fold& s) { visit(s.each); },
                        [&](Roles& s) {
                          for (Role& role : s.roles) visit(role.body);
                        },
                        [](auto&) {}},
             statement.kind);
}

// The values that a statement itself reads.
void for_each_value(Statement& statement, const std::function<void(NodeId&)>& visit) {
  std::visit(overloaded{[&](Let& s) { visit(s.value); }, [&](Assign& s) { visit(s.value); },
                        [&](Map& s) { visit(s.value); }, [&](RowReduce& s) { visit(s.value); },
                        [&](If& s) { visit(s.condition); }, [&](While& s) { visit(s.condition); },
                        [&](Put& s) {
                          visit(s.first_row);
                          visit(s.row_limit);
                        },
                        [&](Store& s) {
                          visit(s.first_row);
                          visit(s.row_limit);
                        },
                        [&](Restore& s) {
                          for (NodeId* value : {&s.mask, &s.begin, &s.end, &s.first_row, &s.row_limit})
                            visit(*value);
                        },
                        [&](MapRows& s) {
                          for (Let& let : s.columns.shared) visit(let.value);
                          visit(s.columns.first);
                          visit(s.columns.second);
                        },
                        [&](Fold& s) {
                          visit(s.begin);
                          visit(s.end);
                          for (Fold::Result& result : s.results) visit(result.value);
                        },
                        [&](TileLoop& s) {
                          visit(s.begin);
                          visit(s.end);
                          visit(s.skip);
                        },
                        [](auto&) {}},
             statement.kind);
}

void for_each_statement(Body& body, const std::function<void(Statement&)>& visit) {
  for (Statement& statement : body) {
    for_each_body(statement, [&](Body& inner) { for_each_statement(inner, visit); });
    visit(statement);
  }
}

}  // namespace

void edit_statements(Body& body, const std::function<void(Statement&&, Body&)>& edit) {
  Body result;
  for (Statement& statement : body) {
    for_each_body(statement, [&](Body& inner) { edit_statements(inner, edit); });
    edit(std::move(statement), result);
  }
  body = std::move(result);
}

bool erase_statements(Body& body, const std::function<bool(const Statement&)>& doomed) {
  bool changed = false;
  edit_statements(body, [&](Statement&& statement, Body& in_its_place) {
    if (doomed(statement))
      changed = true;
    else
      in_its_place.push_back(std::move(statement));
  });
  return changed;
}

bool replace(Graph& graph, NodeId& root, const Rule& rule) {
  if (!root.valid()) return false;
  std::map<NodeId, NodeId> replaced;
  for (NodeId id : cone(graph, {root}))
    if (const NodeId other = rule(graph, id); other.valid()) replaced[id] = other;
  if (replaced.empty()) return false;
  root = substitute(graph, root, replaced);
  return true;
}

bool replace(Graph& graph, Statement& statement, const Rule& rule) {
  bool changed = false;
  for_each_value(statement, [&](NodeId& value) { changed |= replace(graph, value, rule); });
  return changed;
}

bool replace_in_statements(TileProgram& program, const Rule& rule,
                           const std::function<bool(const Statement&)>& where) {
  bool changed = false;
  for_each_statement(program.body, [&](Statement& statement) {
    if (!where || where(statement)) changed |= replace(program.expressions, statement, rule);
  });
  return changed;
}

bool replace_in_transforms(TileProgram& program, const Rule& rule, TensorRole role) {
  bool changed = false;
  for (Channel& channel : program.channels)
    if (channel.source.valid() && channel.columns.empty() &&
        program.expressions.tensor(channel.source).role == role)
      changed |= replace(program.expressions, channel.transform, rule);
  return changed;
}

bool is_apply(const Graph& graph, NodeId id, ScalarOp op) {
  const auto* apply = as<Apply>(graph.node(id));
  return apply != nullptr && apply->op == op;
}
bool is_variable(const Graph& graph, NodeId id, std::string_view name) {
  const auto* variable = as<Variable>(graph.node(id));
  return variable != nullptr && variable->name == name;
}
bool is_size(const Graph& graph, NodeId id, Size size) {
  const auto* found = as<SizeOf>(graph.node(id));
  return found != nullptr && found->size == size;
}
bool is_constant(const Graph& graph, NodeId id, double value) {
  const auto* constant = as<Constant>(graph.node(id));
  return constant != nullptr && constant->value == value;
}
bool is_index(const Graph& graph, NodeId id, Axis axis) {
  const auto* index = as<Index>(graph.node(id));
  return index != nullptr && index->axis == axis;
}

const Map* map_to(const TileProgram& program, const Statement& statement, std::string_view tile) {
  const auto* map = std::get_if<Map>(&statement.kind);
  return map != nullptr && program.tile(map->to).name == tile ? map : nullptr;
}

bool is_masking(const TileProgram& program, const Statement& statement) {
  const Map* map = map_to(program, statement, "s");
  const Graph& graph = program.expressions;
  return map != nullptr && is_apply(graph, map->value, ScalarOp::select) &&
         is_variable(graph, graph.operand(map->value, 1), "s") &&
         is_constant(graph, graph.operand(map->value, 2), -std::numeric_limits<double>::infinity());
}

bool does_masking(const TileProgram& program, const Statement& statement) {
  const auto* condition = std::get_if<If>(&statement.kind);
  if (condition == nullptr) return is_masking(program, statement);
  return condition->body.size() == 1 && is_masking(program, condition->body.front());
}

const Let* let_of(const Statement& statement, std::string_view name) {
  const auto* let = std::get_if<Let>(&statement.kind);
  return let != nullptr && let->name == name ? let : nullptr;
}

bool has_roles(const TileProgram& program) { return program.schedule.groups > 0; }

}  // namespace attnfuse::conformance
