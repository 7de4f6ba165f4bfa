// Few query tiles and many keys (decoding): several workgroups divide the keys of a tile, each leaves outputs
// of its own share, and a kernel after attention merges them by their logsumexps. The merge is associative,
// with (0, -inf) as its neutral element (Dao et al., "Flash-Decoding for long-context inference", 2023).
#pragma once

#include "passes/passes.h"

namespace attnfuse {

// Why outputs over disjoint sets of keys, with their logsumexps, do not give those over all of these keys;
// empty: they do.
std::string merge_refusal(const Graph& graph);

// Whether workgroups may divide the keys: what they leave can be merged, and is all of the outputs. Not of
// ragged queries: outputs of shares are numbered by batch entries.
bool can_share_keys(const Graph& graph);

// The keys that one workgroup can take on this target, see Target::most_key_elements; 0: any number.
std::int64_t most_keys(const ProgramInfo& info, const Target& target);

// The shares for a call of `rows` query rows a head: as many as keep all units busy, and none of few keys.
int key_shares(const ProgramInfo& info, const Target& target, std::int64_t batch, std::int64_t rows,
               std::int64_t skv);

// What attention leaves for each share, as it names its outputs and as the merge reads them.
struct SharedOutput {
  std::string output, shares;
};
std::vector<SharedOutput> shared_outputs(const Graph& graph);

// The kernel that merges.
Result<TileProgram> compile_merge(const Graph& graph, const Target& target, int vector_bytes);

}  // namespace attnfuse
