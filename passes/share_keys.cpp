#include "passes/share_keys.h"

#include <algorithm>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/parameters.h"

namespace attnfuse {
namespace {

constexpr int kThreads = 128;

}  // namespace

std::string merge_refusal(const Graph& graph) {
  const NodeKind& normalize = graph.node(find<Normalize>(graph)).kind;
  const NormalizeKind kind = std::get<Normalize>(normalize).kind;
  if (kind != NormalizeKind::softmax && kind != NormalizeKind::softmax_sink)
    return "its weights are no softmax, whose logsumexps say how much of the whole a part is";
  if (graph.operand(graph.output("o"), 0) != find<Attend>(graph))
    return "its output lines act on the result over all keys, of which a part knows nothing";
  return {};
}

bool can_share_keys(const Graph& graph) {
  return merge_refusal(graph).empty() && !graph.info().storage.ragged && !graph.output("max_logit").valid();
}

std::int64_t most_keys(const ProgramInfo& info, const Target& target) {
  return target.most_key_elements / std::max(info.head_dim, info.v_head_dim);
}

int key_shares(const ProgramInfo& info, const Target& target, std::int64_t batch, std::int64_t rows,
               std::int64_t skv) {
  constexpr std::int64_t kTileRows = 64, kLeastKeys = 512;
  const std::int64_t tiles =
      std::max<std::int64_t>(1, batch * info.heads * ((rows + kTileRows - 1) / kTileRows));
  const std::int64_t busy = std::min(target.compute_units / tiles, skv / kLeastKeys);
  const std::int64_t most = most_keys(info, target);
  const std::int64_t allowed = most > 0 ? (skv + most - 1) / most : 1;
  return int(std::max<std::int64_t>({1, busy, allowed}));
}

std::vector<SharedOutput> shared_outputs(const Graph& graph) {
  return {{"o", unused_name(graph, "o_shares")}, {"lse", unused_name(graph, "lse_shares")}};
}

Result<TileProgram> compile_merge(const Graph& graph, const Target& target, int vector_bytes) {
  TileProgram program;
  ProgramInfo info = graph.info();
  info.storage = {};  // of what it reads and writes
  program.name = "merge_" + info.name;
  program.about = "outputs of shares of the keys, merged";
  program.info = info;
  program.target = target;
  program.expressions = Graph(info);
  program.unit = target.units.back();
  program.outputs = {{"o", info.dtype, true}, {"lse", DType::f32, false}};
  program.shares = true;
  Schedule& schedule = program.schedule;
  schedule.name = "merge";
  schedule.source = "derived";
  schedule.vector_bytes = std::min(vector_bytes, target.vector_bytes);
  schedule.warps = std::max(1, std::min(kThreads, target.max_threads) / target.warp_size);
  schedule.rows_per_warp = schedule.block_k = 0;
  const int chunk = std::max(1, schedule.vector_bytes / size_in_bytes(info.dtype));
  schedule.block_q = std::max(1, schedule.warps * target.warp_size / std::max(1, info.v_head_dim / chunk));
  program.rows = Rows{Size::sq, info.heads, 1};
  program.footprint = {kFlagBytes, program.threads(), 64};
  const std::vector<SharedOutput> shared = shared_outputs(graph);
  for (const SharedOutput& output : shared)
    for (const std::string& name : {output.output, output.shares})
      add_tensor_fields(program, name, {"b", "h", "s"});
  add_size_fields(program);
  Graph& expressions = program.expressions;
  const auto add = [&](Statement statement) { program.body.push_back(std::move(statement)); };
  if (target.pipeline) add(Chain{true});
  add(Let{"h", expressions.variable("head_begin", ValueType::i32)});
  add(MergeShares{shared[0].shares, shared[1].shares, expressions.variable("row_begin", ValueType::i32),
                  expressions.add(SizeOf{Size::sq})});
  if (const Diagnostics mistakes = verify(program); !mistakes.empty())
    ATTNFUSE_CHECK(false, "lowering broke a rule: " + render(mistakes));
  return program;
}

}  // namespace attnfuse
