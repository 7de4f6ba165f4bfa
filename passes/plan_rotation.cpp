// From a program as it was written to the tile programs of a choice, and to what each choice costs.
#include <fmt/format.h>

#include "ir/analysis.h"
#include "passes/rotation.h"

namespace attnfuse {

Result<RotationSchedules> rotation_schedules(const Graph& graph, const Target& target,
                                             const CompileOptions& options) {
  CompileOptions quiet = options;
  quiet.observe = {};
  RotationSchedules schedules;
  Diagnostics errors;
  for (Rotation rotation : distinct_rotations(graph)) {
    const auto program =
        compile_to_tiles(split_transform(graph, split_roles(graph, rotation)), target, quiet);
    if (program)
      schedules[rotation] = program->schedule;
    else
      errors = program.errors();
  }
  if (schedules.empty()) return errors;
  return schedules;
}

Result<std::vector<RotationCost>> predict_rotation(const Graph& graph, const Target& target,
                                                   const CompileOptions& options, const CallSizes& sizes) {
  const auto optimized = run_graph_passes(graph);
  if (!optimized) return optimized.errors();
  const auto schedules = rotation_schedules(graph, target, options);
  if (!schedules) return schedules.errors();
  return rotation_costs(*optimized, target, *schedules, sizes);
}

Result<TileProgram> compile_transform(const Graph& graph, TensorRole role, const Target& target,
                                      const CompileOptions& options, TransformRows rows) {
  const auto optimized = run_graph_passes(graph, options.observe);
  if (!optimized) return optimized.errors();
  return lower_transform(*optimized, role, target,
                         transform_schedule(graph.info(), role, target, options.vector_bytes), rows);
}

Result<std::vector<PlannedProgram>> plan_programs(const Graph& graph, const Target& target,
                                                  const CompileOptions& options, Rotation rotation) {
  if (Diagnostics mistakes = verify(graph); !mistakes.empty()) return mistakes;
  std::vector<PlannedProgram> programs;
  const std::vector<TensorRole> roles = split_roles(graph, rotation);
  for (TensorRole role : roles) {
    auto program = compile_transform(graph, role, target, options);
    if (!program) return program.errors();
    programs.push_back({std::move(program).value(), role});
  }
  CompileOptions rest = options;
  rest.chained = !roles.empty();
  auto attention = compile_to_tiles(roles.empty() ? graph : split_transform(graph, roles), target, rest);
  if (!attention) return attention.errors();
  TileProgram last = std::move(attention).value();
  for (const PlannedProgram& planned : programs)
    last.description.push_back(fmt::format("{} is what {} writes to {}",
                                           graph.tensor(tensor_of(graph, *planned.role)).name,
                                           planned.program.name, planned.program.outputs.at(0).name));
  programs.push_back({std::move(last), {}});
  return programs;
}

}  // namespace attnfuse
