// From a program as it was written to the tile programs of a choice, and to what each choice costs.
#include <algorithm>

#include "passes/rotation.h"

namespace attnfuse {

bool waits_for_others(const TileProgram& program) {
  return std::any_of(program.body.begin(), program.body.end(), [](const Statement& statement) {
    const auto* chain = std::get_if<Chain>(&statement.kind);
    return chain && chain->wait;
  });
}

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

Result<std::vector<PlannedProgram>> plan_programs(const Graph& graph, const Target& target,
                                                  const CompileOptions& options, Rotation rotation,
                                                  TransformRows keys) {
  std::vector<PlannedProgram> programs;
  const std::vector<TensorRole> roles = split_roles(graph, rotation);
  if (!roles.empty()) {
    const auto optimized = run_graph_passes(graph, options.observe);
    if (!optimized) return optimized.errors();
    for (TensorRole role : roles) {
      const Schedule schedule = transform_schedule(graph.info(), role, target, options.vector_bytes);
      auto program = lower_transform(*optimized, role, target, schedule,
                                     role == TensorRole::key ? keys : TransformRows::all);
      if (!program) return program.errors();
      programs.push_back({std::move(program).value(), role});
    }
  }
  auto attention = compile_to_tiles(roles.empty() ? graph : split_transform(graph, roles), target, options);
  if (!attention) return attention.errors();
  TileProgram program = std::move(attention).value();
  // What the pre-passes write must be there before anything is read.
  if (!roles.empty() && target.pipeline && !waits_for_others(program))
    program.body.insert(program.body.begin(), Statement{Chain{true}});
  programs.push_back({std::move(program), {}});
  return programs;
}

}  // namespace attnfuse
