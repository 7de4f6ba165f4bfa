// The rotation calculus: whether a transform of the queries or keys (RoPE, a norm, any expression) runs
// inside attention or in a pre-pass of its own, from what the machine does per second and the sizes of the
// call.
//
// Symbols (all times in seconds; the functions give microseconds)
//   B, Sq, Skv, H, G, D   batch, queries, keys, query heads, key heads, head dim (Dv: of values)
//   e                     bytes of an element
//   Mq, Mk                rows and keys of a tile of scores; T = tiles of all heads that the mask lets visit
//   F, S, X, L, M, t0     Rates: matrix and scalar operations, special functions, bytes of shared memory and
//   of
//                         memory, per second; from one kernel of a chain to the next
//   N_Q = B H Sq D        elements of the queries           N_K = B G Skv D   of the keys
//   c_Q, c_K              operations per element inside attention: each element computes its own sine and
//   cosine p_Q, p_K              operations per element in the pre-pass: a pair computes one angle, for some
//   heads u = min(1, workgroups / cores)   the part of the machine that has work E                     what
//   the schedule reaches of F without transforms (measured)
//
// Attention alone: products, exponentials and memory overlap, so the slowest counts.
//   P   = T Mq Mk                                                  scores
//   T_a = t0 + max(2 P (D + Dv) / (E F),  P / X,  e (N_Q + N_K + B G Skv Dv + B H Sq Dv) / M) / u
//
// Fused queries: every tile of queries is transformed once, N_Q c_Q operations. Fused keys: every tile of
// scores transforms its keys anew, for each query tile and each head of the group:
//   R_K = T Mk D elements instead of N_K, that is (H / G) (Sq / Mq) times as many (half of it if causal).
// Both take issue slots from the softmax, which issues in nearly every cycle: the operations add to the time
// and hide behind nothing.
//
// portable: the copy of transformed keys is direct. Loading no longer runs behind the products:
//   T_f = T_a + (N_Q c_Q + R_K c_K) / (S u) + [keys fused] e R_K / (M u)
// with roles: producer warps transform in shared memory, tile after tile, at a share s of the machine's issue
// slots. What does not fit beside the products delays them, and the shared memory that both use is a bound
// of its own, w bytes per element of a tile of products, 2 e per transformed one:
//   T_f = t0 + max(T_a - t0 + (N_Q c_Q + R_K c_K) / (S u),
//                  (N_Q c_Q + R_K c_K) / (s S u),
//                  (w T (Mq D + Mk (D + Dv)) + 2 e (N_Q + R_K)) / (L u))
// with roles, and threads of their own for queries (no other transform): whole tiles of them, in place, for
// the pre-pass's operations; four warps of a core issue at most a share s' of its slots, and what
// they draw of the machine's power slows the products by l (measured under sustained load):
//   T_f = t0 + t1 + max(l (T_a - t0) + N_Q p_Q / (S u),  N_Q p_Q / (s' S u))
//
// A pre-pass moves its elements once in and once out, and computes meanwhile:
//   T_p = t0 + max(2 e N / M,  p N / S)
// It pays when t0 + 2 e N_K / M < R_K c_K / S: roughly when (H / G) (Sq / Mq) > (2 e S) / (M c_K), plus what
// t0 is worth. With a cache of transformed keys (decoding) N_K is the B G Sq D new elements only; with a raw
// one it is the whole cache, each step.
#pragma once

#include <map>

#include "passes/transform.h"

namespace attnfuse {

struct RotationInfo {
  Rotation rotation;
  std::string_view name;
  std::string_view about;
};
std::span<const RotationInfo> rotations();
std::string_view name(Rotation rotation);
std::optional<Rotation> rotation_from_name(std::string_view name);

// The roles that a choice (not automatic) splits off, of those that have a transform. Never keys in pages,
// of which a call may use little; none with two score heads, whose queries and keys are two tensors each.
std::vector<TensorRole> split_roles(const Graph& graph, Rotation rotation);

struct CallSizes {
  std::int64_t batch = 1, sq = 1, skv = 1;
};

// One row of the table: microseconds.
struct RotationCost {
  Rotation rotation = Rotation::fuse;
  bool cached = false;  // the keys' cache holds transformed keys: the pre-pass takes the newest sq rows
  double query_us = 0, key_us = 0, attention_us = 0;
  double total_us() const { return query_us + key_us + attention_us; }
};

// The choices that differ for this program, the one that most calls want first.
std::vector<Rotation> distinct_rotations(const Graph& graph);

// The schedule that attention has under each choice; one that cannot be lowered is absent. Fails when none
// can.
using RotationSchedules = std::map<Rotation, Schedule>;
Result<RotationSchedules> rotation_schedules(const Graph& graph, const Target& target,
                                             const CompileOptions& options);

// `graph` is what run_graph_passes gives. One row for each choice, then those with a cache.
std::vector<RotationCost> rotation_costs(const Graph& graph, const Target& target,
                                         const RotationSchedules& schedules, const CallSizes& sizes);

// The cheapest that needs no transformed cache.
Rotation choose_rotation(std::span<const RotationCost> costs);

// The same for a program as it was written: passes, schedules, costs.
Result<std::vector<RotationCost>> predict_rotation(const Graph& graph, const Target& target,
                                                   const CompileOptions& options, const CallSizes& sizes);

// The tile programs of one choice (not automatic), in launch order: pre-passes, then attention.
struct PlannedProgram {
  TileProgram program;
  std::optional<TensorRole> role;  // absent: attention
};
Result<std::vector<PlannedProgram>> plan_programs(const Graph& graph, const Target& target,
                                                  const CompileOptions& options, Rotation rotation);

// Operations per element of a role's expression: inside attention, and in the pre-pass.
double fused_operations(const Graph& graph, TensorRole role);
double split_operations(const Graph& graph, TensorRole role);

// Tiles of scores, of all heads, that the mask lets a schedule visit.
double visited_tiles(const Graph& graph, const Schedule& schedule, const CallSizes& sizes);

}  // namespace attnfuse
