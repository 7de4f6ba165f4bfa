// choose_schedule: a row of the target's table where one fits, else the derived default: the largest tile, by
// work per byte moved, that provably fits the target's limits.
#include <fmt/format.h>

#include <algorithm>

#include "ir/algorithm.h"
#include "ir/score_heads.h"
#include "passes/expressions.h"
#include "passes/forward_tiles.h"
#include "passes/passes.h"
#include "passes/pipelined_tiles.h"

namespace attnfuse {
namespace {

// Rows that one warp can own in the smallest step.
int row_quantum(const MatrixUnit& unit, const Target& target) {
  if (unit.is_fma()) return std::max(1, target.warp_size / 4);
  const int rows = unit.transposed ? unit.n : unit.m;
  // Opaque scores are read back as rows of threads.
  return unit.opaque ? std::max(rows, target.warp_size / 4) : rows;
}

int key_quantum(const MatrixUnit& unit, DType dtype) {
  if (unit.is_fma()) return dtype == DType::f32 ? 4 : 8;  // pairs of 16 bits share a register
  return std::max(unit.k, unit.transposed ? unit.m : unit.n);
}

Schedule with(const Target& target, int block_k, int warps, int rows_per_warp, int vector_bytes) {
  Schedule schedule;
  schedule.block_k = block_k;
  schedule.warps = warps;
  schedule.rows_per_warp = rows_per_warp;
  schedule.block_q = warps * rows_per_warp;
  schedule.vector_bytes = std::min(vector_bytes, target.vector_bytes);
  schedule.copy = target.copy;
  if (schedule.copy == CopyKind::async && schedule.vector_bytes < target.async_copy_min_bytes)
    schedule.copy = CopyKind::direct;
  return schedule;
}

// Functions of the special units for every score: the softmax takes longer than the products, and waits that
// keep order among groups only lengthen it.
bool works_hard_on_scores(const Graph& graph) {
  for (std::uint32_t v = 0; v < graph.size(); ++v) {
    const Node& node = graph.node({v});
    const auto* apply = as<Apply>(node);
    if (apply == nullptr || !node.axes.has(Axis::i) || !node.axes.has(Axis::j)) continue;
    if (apply->op == ScalarOp::tanh || apply->op == ScalarOp::exp || apply->op == ScalarOp::exp2 ||
        apply->op == ScalarOp::log)
      return true;
  }
  return false;
}

// Queries are transformed inside attention, and nothing else is.
bool transforms_only_query(const Graph& graph) {
  const NodeId scores = find<Scores>(graph), attend = find<Attend>(graph);
  const auto is_input = [&](NodeId id) { return as<Input>(graph.node(id)) != nullptr; };
  return !is_input(graph.operand(scores, 0)) && is_input(graph.operand(scores, 1)) &&
         is_input(graph.operand(attend, 1));
}

// Threads that transform take registers from all others. Not where there are not enough, for their roles or
// for the operands of one product at the equal share that all start with: then the loader transforms.
void add_transform_threads(Schedule& schedule, const ProgramInfo& info, const PipelineUnits& units) {
  constexpr int kStep = 8, kProducer = 32, kTransform = 40, kOperands = 30;
  const int threads = (schedule.groups + 2) * units.group_threads;
  const int all = units.registers / units.group_threads;
  const int consumer = schedule.consumer_registers - kStep;
  const int transform = all - schedule.groups * consumer - kProducer;
  if (transform < kTransform || units.registers_at_start(threads) < info.v_head_dim / 2 + kOperands) return;
  schedule.warps += schedule.warps / (schedule.groups + 1);
  schedule.consumer_registers = consumer;
  schedule.producer_registers = kProducer;
  schedule.transform_registers = transform;
}

// A slot is loaded, transformed, read, filled with outputs and stored before its next queries come; with a
// transform, which takes as long as the products with a few keys, two slots are not enough to hide that.
void add_query_slot(Schedule& schedule, const ProgramInfo& info, const Target& target) {
  Schedule more = schedule;
  ++more.query_slots;
  if (fits(pipelined_footprint(info, target, more), target)) schedule = more;
}

// The schedule with roles, for every row that takes the program and fits.
std::vector<Schedule> pipelined(const Graph& graph, const Target& target, int vector_bytes, std::int64_t sq) {
  const ProgramInfo& info = graph.info();
  if (!target.pipeline || vector_bytes < target.pipeline->alignment) return {};
  if (!pipeline_refusal(graph, target).empty()) return {};
  std::vector<Schedule> result;
  const int head = std::max(info.head_dim, info.v_head_dim);
  for (const PipelineRow& row : target.pipelines) {
    const bool takes = std::ranges::find(row.dtypes, info.dtype) != row.dtypes.end();
    if (!takes || head < row.min_head_dim || head > row.max_head_dim) continue;
    if (row.longest != PipelineRow::kAnyLength && (sq == 0 || sq > row.longest)) continue;
    if (!takes_pages(info.storage, row.block_k)) continue;
    Schedule schedule;
    schedule.name = target.pipeline->schedule;
    schedule.rows_per_warp = group_rows(target) * target.warp_size / target.pipeline->group_threads;
    schedule.block_q = row.groups * group_rows(target);
    schedule.block_k = row.block_k;
    schedule.warps = (row.groups + 1) * target.pipeline->group_threads / target.warp_size;
    schedule.copy = CopyKind::bulk;
    schedule.vector_bytes = vector_bytes;
    schedule.groups = row.groups;
    schedule.query_slots = row.query_slots;
    schedule.kv_slots = row.kv_slots;
    schedule.consumer_registers = row.consumer_registers;
    schedule.producer_registers = row.producer_registers;
    if (transforms_only_query(graph)) add_transform_threads(schedule, info, *target.pipeline);
    if (schedule.transform_registers > 0) add_query_slot(schedule, info, target);
    schedule.take_turns = row.take_turns && row.groups > 1 && !works_hard_on_scores(graph);
    schedule.exponentials_first = is_masked(graph) ? row.exponentials_masked : row.exponentials_plain;
    schedule.trims = row.trims;
    schedule.speed = row.speed;
    schedule.source = "table";
    if (fits(pipelined_footprint(info, target, schedule), target)) result.push_back(schedule);
  }
  // A loader that transforms holds everyone up.
  const auto is_alone = [](const Schedule& schedule) { return schedule.transform_registers == 0; };
  if (!std::ranges::all_of(result, is_alone)) std::erase_if(result, is_alone);
  return result;
}

bool fits_program(const ProgramInfo& info, const Target& target, const Schedule& schedule) {
  const Footprint need =
      footprint_of(plan_forward_tiles(info, target, schedule).tiles, schedule.warps * target.warp_size);
  return fits(need, target);
}

// Multiply-adds per element of K and V that a step moves through shared memory, the figure that decides speed
// on every machine: rows of a warp reuse what the warp reads, rows of the workgroup what it copies.
double value_of(const Schedule& schedule) {
  return schedule.rows_per_warp * 4.0 + schedule.block_q + std::min(schedule.block_k, 64) * 0.5 -
         schedule.warps;
}

}  // namespace

bool fits(const Footprint& need, const Target& target) {
  return need.shared_bytes <= target.shared_bytes && need.threads <= target.max_threads &&
         need.registers <= target.registers_per_thread;
}

Footprint footprint(const ProgramInfo& info, const Target& target, const Schedule& schedule) {
  if (schedule.groups > 0) return pipelined_footprint(info, target, schedule);
  return footprint_of(plan_forward_tiles(info, target, schedule).tiles, schedule.warps * target.warp_size);
}

namespace {

// Workgroups can divide the columns of values where each needs only its own: nothing pairs or sums them.
bool divides_values(const Graph& graph) {
  std::vector<NodeId> attends;
  for (const ScoreHead& head : score_heads(graph)) attends.push_back(head.attend);
  if (as<Input>(graph.node(graph.operand(attends[0], 1))) == nullptr) return false;
  const std::vector<NodeId> before = cone(graph, attends);
  return std::ranges::all_of(cone(graph, {graph.operand(graph.output("o"), 0)}), [&](NodeId id) {
    const bool reads_others = as<Partner>(graph.node(id)) || as<Reduce>(graph.node(id));
    return !reads_others || std::ranges::find(before, id) != before.end();
  });
}

// The widest head dims that common tiles are for.
constexpr int kCommonHeadDim = 256;

// The best tiles for head dims that fit no other way: small steps, and workgroups that divide the values.
// They leave `room` registers.
std::optional<Schedule> narrow(const Graph& graph, const Target& target, int vector_bytes, int room) {
  const ProgramInfo& info = graph.info();
  const MatrixUnit& unit = matrix_unit(target, info.dtype);
  const bool has_operands = !unit.is_fma() && !unit.opaque, divides = divides_values(graph);
  const int rows = row_quantum(unit, target);
  std::optional<Schedule> best;
  double most = 0;
  for (int columns : {info.v_head_dim, 256, 192, 160, 128, 96, 64, 32})
    for (int block_k : {4, 8, 16, 32, 64})
      for (int warps : {1, 2, 4, 8})
        for (int repeat : {1, 2, 4})
          for (bool in_registers : {false, true}) {
            if (columns > info.v_head_dim || (columns < info.v_head_dim && !divides)) continue;
            if (block_k % key_quantum(unit, info.dtype) != 0 || (unit.is_fma() && block_k > 32)) continue;
            if (in_registers && !has_operands) continue;
            Schedule schedule = with(target, block_k, warps, rows * repeat, vector_bytes);
            schedule.source = "derived";
            schedule.query_in_registers = in_registers;
            if (columns < info.v_head_dim) schedule.value_columns = columns;
            Footprint need = footprint(info, target, schedule);
            if (schedule.block_q > 128 || !fits(need, target)) continue;
            if (need.registers + room > target.registers_per_thread) continue;
            // What few threads hold of a wide tile on its way.
            need.registers +=
                block_k * std::max(info.head_dim, columns) * size_in_bytes(info.dtype) / 4 / need.threads;
            if (schedule.copy == CopyKind::staged && !fits(need, target)) schedule.copy = CopyKind::direct;
            // Scores are computed once for each part.
            const int parts = (info.v_head_dim + columns - 1) / columns;
            const double worth = value_of(schedule) / (parts * (info.head_dim + columns));
            if (worth <= most) continue;
            most = worth;
            best = schedule;
          }
  return best;
}
std::optional<Schedule> narrow(const Graph& graph, const Target& target, int vector_bytes) {
  // The products of one score head run beside the output of the other.
  const int room = graph.info().score_heads > 1 ? target.registers_per_thread / 4 : 0;
  const auto schedule = narrow(graph, target, vector_bytes, room);
  return schedule || room == 0 ? schedule : narrow(graph, target, vector_bytes, 0);
}

// The portable schedule: a row of the table, else the best of all that fit.
std::optional<Schedule> portable(const Graph& graph, const Target& target, int vector_bytes) {
  const ProgramInfo& info = graph.info();
  const MatrixUnit& unit = matrix_unit(target, info.dtype);
  const int head = std::max(info.head_dim, info.v_head_dim);
  for (const ScheduleRow& row : target.schedules) {
    const bool takes = std::ranges::find(row.dtypes, info.dtype) != row.dtypes.end();
    if (!takes || head < row.min_head_dim || head > row.max_head_dim) continue;
    if (row.score_heads != info.score_heads) continue;
    Schedule schedule = with(target, row.block_k, row.warps, row.block_q / row.warps, vector_bytes);
    schedule.query_in_registers = row.query_in_registers;
    schedule.source = "table";
    if (fits_program(info, target, schedule)) return schedule;
  }
  if (head > kCommonHeadDim) return narrow(graph, target, vector_bytes);
  std::optional<Schedule> best;
  const int rows = row_quantum(unit, target);
  for (int block_k : {8, 16, 32, 64, 128})
    for (int warps : {1, 2, 4, 8})
      for (int repeat : {1, 2, 4}) {
        if (block_k % key_quantum(unit, info.dtype) != 0 || (unit.is_fma() && block_k > 32)) continue;
        Schedule schedule = with(target, block_k, warps, rows * repeat, vector_bytes);
        schedule.source = "derived";
        if (schedule.block_q > 128 || !fits_program(info, target, schedule)) continue;
        if (!best || value_of(schedule) > value_of(*best)) best = schedule;
      }
  return best ? best : narrow(graph, target, vector_bytes);
}

// What to do about a program that no tile fits.
std::string narrower(const Graph& graph) {
  std::string fix =
      graph.info().score_heads > 1
          ? "use a smaller v_head_dim, as each of two score heads keeps an output of that width, "
            "or a target with more registers"
          : "use a smaller head_dim or a target with more shared memory";
  if (!divides_values(graph))
    fix += "; values may be wider without transform, and outputs that nothing pairs or sums along d";
  return fix;
}

}  // namespace

std::vector<int> length_classes(const ProgramInfo& info, const Target& target) {
  std::vector<int> result = {PipelineRow::kAnyLength};
  const int head = std::max(info.head_dim, info.v_head_dim);
  for (const PipelineRow& row : target.pipelines)
    if (row.longest != PipelineRow::kAnyLength && head >= row.min_head_dim && head <= row.max_head_dim &&
        std::ranges::find(result, row.longest) == result.end())
      result.push_back(row.longest);
  std::sort(result.begin() + 1, result.end());
  return result;
}

Result<std::vector<Schedule>> schedule_choices(const Graph& graph, const Target& target, int vector_bytes,
                                               ScheduleKind kind, std::int64_t sq) {
  const ProgramInfo& info = graph.info();
  std::vector<Schedule> choices;
  const bool automatic = target.pipeline && target.pipeline->automatic;
  if (kind == ScheduleKind::pipelined || (kind == ScheduleKind::automatic && automatic))
    choices = pipelined(graph, target, vector_bytes, sq);
  if (kind != ScheduleKind::pipelined)
    if (const auto schedule = portable(graph, target, vector_bytes)) choices.push_back(*schedule);
  if (!choices.empty()) return choices;
  if (kind == ScheduleKind::pipelined && target.pipeline)
    if (const std::string why = pipeline_refusal(graph, target); !why.empty())
      return Diagnostic{"schedule.does-not-fit", "the schedule with roles does not take the program: " + why,
                        info.where, "use the portable schedule"};
  if (kind == ScheduleKind::pipelined)
    return Diagnostic{
        "schedule.does-not-fit",
        fmt::format("the schedule with roles does not take head_dim {} (values {}) in {} on {} with {}-byte "
                    "accesses",
                    info.head_dim, info.v_head_dim, name(info.dtype), target.name, vector_bytes),
        info.where,
        "use the portable schedule, or a target with a copy engine, f16 or bf16, and tensors whose "
        "addresses and strides are multiples of 16 bytes"};
  return Diagnostic{
      "schedule.does-not-fit",
      fmt::format("no tile of head_dim {} (values {}) in {} fits {}: {} bytes of shared memory, {} registers",
                  info.head_dim, info.v_head_dim, name(info.dtype), target.name, target.shared_bytes,
                  target.registers_per_thread),
      info.where, narrower(graph)};
}

Result<Schedule> choose_schedule(const Graph& graph, const Target& target, int vector_bytes,
                                 ScheduleKind kind, std::int64_t sq) {
  auto choices = schedule_choices(graph, target, vector_bytes, kind, sq);
  if (!choices) return choices.errors();
  return choices->front();
}

}  // namespace attnfuse
