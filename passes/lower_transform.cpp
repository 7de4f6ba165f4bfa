// lower_transform: the pre-pass as a tile program. Bound by memory: neighbouring threads take neighbouring
// chunks of a row, and a thread keeps its chunk for some heads, so that what depends on the position alone is
// computed once for them.
#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"
#include "ir/storage.h"
#include "passes/columns.h"
#include "passes/parameters.h"
#include "passes/sequence.h"
#include "passes/transform.h"

namespace attnfuse {
namespace {

constexpr int kThreads = 256;
// Enough to make the price of a sine and cosine small, few enough to keep their elements in registers.
constexpr int kHeads = 4;

bool is_query(TensorRole role) { return role == TensorRole::query; }

class TransformLowering {
 public:
  TransformLowering(const Graph& graph, TensorRole role, const Target& target, const Schedule& schedule)
      : role_(role) {
    program_.name = fmt::format("transform_{}_{}", name(role), graph.info().name);
    program_.about =
        fmt::format("the transform of {}, ahead of attention", graph.tensor(tensor_of(graph, role)).name);
    program_.info = graph.info();
    program_.target = target;
    program_.schedule = schedule;
    program_.expressions = graph;
    program_.unit = target.units.back();
    program_.rows = transform_rows(graph.info(), role);
    output_ = transform_output(graph, role);
    program_.outputs = {{output_, graph.info().dtype, true}};
    add_sequences(program_);
    add_params();
  }

  TileProgram run(TransformRows rows) {
    Graph& graph = program_.expressions;
    const TensorId source = tensor_of(graph, role_);
    const Size size = program_.rows->size;
    const NodeId limit = graph.add(SizeOf{size});
    NodeId first = graph.variable("row_begin", ValueType::i32);
    if (rows == TransformRows::newest && size == Size::skv && program_.info.storage.is_plain()) {
      program_.rows->size = Size::sq;  // as many rows as there are queries
      program_.name += "_newest";
      const NodeId old = graph.apply(ScalarOp::isub, {limit, graph.add(SizeOf{Size::sq})});
      const NodeId zero = graph.constant(0, ValueType::i32);
      first = graph.apply(ScalarOp::iadd, {first, graph.apply(ScalarOp::imax, {old, zero})});
    }
    if (program_.target.pipeline) {
      // The kernels before own the memory that this one writes until they are complete.
      add(Chain{false});
      add(Chain{true});
    }
    const int columns = role_ == TensorRole::value ? program_.info.v_head_dim : program_.info.head_dim;
    int values = 0;
    for (ColumnGroup& group : column_groups(graph, transform_of(graph, role_), columns)) {
      values = std::max(values, int(group.shared.size()));
      add(MapRows{source, output_, first, limit, std::move(group)});
    }
    program_.footprint = footprint(values);
    return std::move(program_);
  }

 private:
  void add(Statement statement) { program_.body.push_back(std::move(statement)); }

  void add_params() {
    const Graph& graph = program_.expressions;
    const Storage& storage = program_.info.storage;
    const std::vector<std::string> strides = row_map(storage, row_side(role_)).strides();
    add_tensor_fields(program_, graph.tensor(tensor_of(graph, role_)).name, strides);
    add_tensor_fields(program_, output_, strides);
    add_captured_fields(program_, {transform_of(graph, role_)});
    for (const TensorInfo& tensor : storage_tensors(storage)) add_captured_fields(program_, tensor);
    add_size_fields(program_);
  }

  // What a thread holds: elements of all heads, and the values that they share.
  Footprint footprint(int values) const {
    constexpr int kAddressing = 40;
    const int chunk = std::max(1, program_.schedule.vector_bytes / size_in_bytes(program_.info.dtype));
    const int registers = kAddressing + 2 * chunk * program_.rows->heads + values * chunk;
    return {kFlagBytes, program_.threads(), std::min(registers, program_.target.registers_per_thread)};
  }

  TensorRole role_;
  std::string output_;
  TileProgram program_;
};

}  // namespace

std::string transform_output(const Graph& graph, TensorRole role) {
  return unused_name(graph, graph.tensor(tensor_of(graph, role)).name + "_transformed");
}

Rows transform_rows(const ProgramInfo& info, TensorRole role) {
  const int heads = is_query(role) ? info.heads : info.kv_heads;
  return {is_query(role) ? Size::sq : Size::skv, heads, std::min(heads, kHeads)};
}

Schedule transform_schedule(const ProgramInfo& info, TensorRole role, const Target& target,
                            int vector_bytes) {
  Schedule schedule;
  schedule.name = "transform";
  schedule.source = "derived";
  schedule.vector_bytes = std::min(vector_bytes, target.vector_bytes);
  schedule.warps = std::min(kThreads, target.max_threads) / target.warp_size;
  const int columns = role == TensorRole::value ? info.v_head_dim : info.head_dim;
  const int chunk = std::max(1, schedule.vector_bytes / size_in_bytes(info.dtype));
  const int units = std::max(1, columns / (2 * chunk));
  schedule.block_q = std::max(1, schedule.warps * target.warp_size / units);
  schedule.block_k = 0;
  schedule.rows_per_warp = 0;
  return schedule;
}

Result<TileProgram> lower_transform(const Graph& graph, TensorRole role, const Target& target,
                                    const Schedule& schedule, TransformRows rows) {
  TileProgram program = TransformLowering(graph, role, target, schedule).run(rows);
  if (const Diagnostics mistakes = verify(program); !mistakes.empty())
    ATTNFUSE_CHECK(false, "lowering broke a rule: " + render(mistakes));
  return program;
}

}  // namespace attnfuse
