// The rules of verify(), by subject; each appends what it finds. Later subjects assume that the earlier ones
// found nothing. Only verify.cpp calls them.
#pragma once

#include <fmt/format.h>

#include "ir/graph.h"

namespace attnfuse {

class Report {
 public:
  explicit Report(const Graph& graph) : graph(graph) {}

  // `where` falls back to the program's place: nodes that passes make have none.
  void add(std::string code, std::string message, const Where& where, std::string fix = {}) {
    const bool known = where.line > 0;
    found.push_back(
        {std::move(code), std::move(message), known ? where : graph.info().where, std::move(fix)});
  }

  const Graph& graph;
  Diagnostics found;
};

// verify_program.cpp: heads, head dims, dtype, tensors.
void check_program(Report& report);
void check_tensors(Report& report);

// verify_nodes.cpp: operand counts and types, constants, gathers.
void check_arity(Report& report, std::span<const NodeId> live);
void check_types(Report& report, std::span<const NodeId> live);

// verify_structure.cpp: scores -> normalize -> attend -> o, and what may stand in each stage.
void check_structure(Report& report, std::span<const NodeId> live);
void check_stages(Report& report);

// verify_gradient.cpp: what holds of gradient graphs in place of the structure of programs.
void check_gradient(Report& report, std::span<const NodeId> live);

}  // namespace attnfuse
