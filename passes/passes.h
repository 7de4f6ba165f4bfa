// The passes, in pipeline order. Graph passes are target-free: const in, new graph out, verified after each.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/tile.h"

namespace attnfuse {

// simplify: constant folding, identities, common subexpressions. First, so that later passes match few forms.
Result<Graph> simplify(const Graph& graph);
// expand_partner: partner(f(x, d)) becomes f(partner(x), partner's d), so that kernels pair only inputs.
Result<Graph> expand_partner(const Graph& graph);
// tabulate: every maximal expression of d alone becomes a constant table, computed in double precision once
// (RoPE frequencies, whatever their scaling, cost one load).
Result<Graph> tabulate(const Graph& graph);
// remove_dead: what no output needs disappears, unused captured tensors excepted.
Result<Graph> remove_dead(const Graph& graph);

struct GraphPass {
  std::string_view name;
  std::string_view why;  // one line: what it does and why it stands here
  Result<Graph> (*run)(const Graph&);
};
std::span<const GraphPass> graph_passes();

// Called after every stage with its name and text (graph or tile program); `seconds` it took.
using StageObserver = std::function<void(std::string_view stage, const std::string& text, double seconds)>;
Result<Graph> run_graph_passes(const Graph& graph, const StageObserver& observe = {});

// How a mask divides the score tiles, from interval analysis of its predicate. Expressions are nodes of
// `graph` over the variables q_begin, q_end, k_begin, k_end (tile bounds, inclusive-exclusive), b, h, sq,
// skv.
struct TileClasses {
  NodeId first_key, end_key;  // over q_begin, q_end: no allowed key outside [first_key, end_key)
  bool has_holes = false;     // tiles inside the bounds may be empty: test `empty`
  NodeId empty;               // no element of the tile is allowed
  NodeId full;                // every element of the tile is allowed
  bool depends_on_data =
      false;  // the predicate reads captured tensors: never full, never empty from them alone
};
// Adds the expressions to `graph` (a copy of the program extended by lowering).
TileClasses classify_tiles(Graph& graph, NodeId mask);

// automatic: with roles where the target says so (PipelineUnits) and the program allows it, else portable.
enum class ScheduleKind : std::uint8_t { automatic, portable, pipelined };
// Table row for the target, dtype and head dim if it fits, else the derived default.
// Diagnostic "schedule.does-not-fit" when nothing fits.
Result<Schedule> choose_schedule(const Graph& graph, const Target& target, int vector_bytes,
                                 ScheduleKind kind = ScheduleKind::automatic, std::int64_t sq = 0);
// All that fit, best first. Schedules with roles promise registers that only the assembler can confirm: who
// compiles takes the first that keeps the promise.
// For calls of up to sq query rows; 0: of any number.
Result<std::vector<Schedule>> schedule_choices(const Graph& graph, const Target& target, int vector_bytes,
                                               ScheduleKind kind = ScheduleKind::automatic,
                                               std::int64_t sq = 0);
// Numbers of query rows up to which other schedules are better, ascending after the first, which is 0: any.
std::vector<int> length_classes(const ProgramInfo& info, const Target& target);
Footprint footprint(const ProgramInfo& info, const Target& target, const Schedule& schedule);
bool fits(const Footprint& footprint, const Target& target);

// What kernels before and after attention do for it.
struct Around {
  std::string data_bounds;   // the tensor that one fills, see passes/data_bounds.h; empty: none
  bool shares_keys = false;  // one merges the outputs of shares of the keys, see passes/share_keys.h
};
// The schedule's kernel: lower_portable.cpp, lower_pipelined.cpp.
Result<TileProgram> lower_forward(const Graph& graph, const Target& target, const Schedule& schedule,
                                  const Around& around = {});

// Which of queries and keys are transformed by a pre-pass of their own ahead of attention
// (passes/rotation.h).
enum class Rotation : std::uint8_t { automatic, fuse, query, key, both };

// All of it: passes, schedule, lowering. vector_bytes: 16, or the element size when the caller's pointers or
// strides are not 16-byte aligned.
struct CompileOptions {
  int vector_bytes = 16;
  bool copy_engine = true;  // the copy engine, where the target has one, takes the caller's tensors: programs
                            // with roles are allowed
  Rotation rotation = Rotation::automatic;  // for plans of several kernels; one kernel has all fused
  bool chained = false;                     // other kernels write what this one reads, just before it
  Around around;
  ScheduleKind schedule_kind = ScheduleKind::automatic;
  std::int64_t sq = 0;  // query rows of the calls it is compiled for, at most; 0: any number. Not a limit.
  Schedule schedule;    // used when schedule.source is set
  StageObserver observe;
};
// What the caller's tensors leave of the kind that is asked for.
inline ScheduleKind kind_for(const CompileOptions& options) {
  return options.copy_engine ? options.schedule_kind : ScheduleKind::portable;
}
Result<TileProgram> compile_to_tiles(const Graph& graph, const Target& target,
                                     const CompileOptions& options = {});
// Whether a program waits by itself for the kernels ahead of it, so that it may be launched before they end.
bool waits_for_others(const TileProgram& program);

}  // namespace attnfuse
