// Edits of tile programs, for mutations. Every function says whether, or how often, it changed something.
#pragma once

#include <functional>
#include <string_view>

#include "ir/tile.h"

namespace attnfuse::conformance {

// Calls edit(statement, in_its_place) for every statement, inner ones first; what is put into `in_its_place`
// stands there afterwards.
void edit_statements(Body& body, const std::function<void(Statement&& statement, Body& in_its_place)>& edit);

// Erases the statements for which it holds.
bool erase_statements(Body& body, const std::function<bool(const Statement& statement)>& doomed);

// The node that stands in place of another one, or an invalid id.
using Rule = std::function<NodeId(Graph& graph, NodeId id)>;
// In one expression; in what a statement itself reads; in all statements; in the transforms of channels.
bool replace(Graph& graph, NodeId& root, const Rule& rule);
bool replace(Graph& graph, Statement& statement, const Rule& rule);
bool replace_in_statements(TileProgram& program, const Rule& rule,
                           const std::function<bool(const Statement& statement)>& where = {});
bool replace_in_transforms(TileProgram& program, const Rule& rule, TensorRole role);

// ---- what statements and nodes are ------------------------------------------------------------
bool is_apply(const Graph& graph, NodeId id, ScalarOp op);
bool is_variable(const Graph& graph, NodeId id, std::string_view name);
bool is_size(const Graph& graph, NodeId id, Size size);
bool is_constant(const Graph& graph, NodeId id, double value);
bool is_index(const Graph& graph, NodeId id, Axis axis);
// The map, or null, if the statement is one to a tile of that name.
const Map* map_to(const TileProgram& program, const Statement& statement, std::string_view tile);
// Scores of keys that are not allowed become -infinity.
bool is_masking(const TileProgram& program, const Statement& statement);
// The same, or the condition under which only that is done.
bool does_masking(const TileProgram& program, const Statement& statement);
const Let* let_of(const Statement& statement, std::string_view name);
bool has_roles(const TileProgram& program);

}  // namespace attnfuse::conformance
