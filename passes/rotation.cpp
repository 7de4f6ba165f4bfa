#include "passes/rotation.h"

#include <algorithm>
#include <cmath>

#include "ir/algorithm.h"
#include "passes/columns.h"

namespace attnfuse {
namespace {

constexpr RotationInfo kRotations[] = {
    {Rotation::automatic, "auto", "what the cost model chooses for the sizes of a call"},
    {Rotation::fuse, "fuse", "queries and keys inside attention"},
    {Rotation::query, "query", "queries by a pre-pass, keys inside attention"},
    {Rotation::key, "key", "keys by a pre-pass, queries inside attention"},
    {Rotation::both, "both", "queries and keys by pre-passes"},
};

// Instructions of one lane, as the preludes write them.
double operations(ScalarOp op) {
  switch (op) {
    case ScalarOp::sin:
    case ScalarOp::cos:
      return 20;
    case ScalarOp::tanh:
    case ScalarOp::idiv:
    case ScalarOp::imod:
      return 16;
    case ScalarOp::exp:
    case ScalarOp::log:
      return 10;
    case ScalarOp::div:
      return 8;
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
      return 4;
    default:
      return 1;
  }
}

constexpr double kGather = 3;     // address, bounds, load
constexpr double kElement = 3;    // an element's share of load, conversions and store
constexpr double kSharedSum = 4;  // an element's share of a sum over the row: its own part, exchanges
constexpr double kChunk = 8;      // elements that share what does not depend on d

// Lanes that share a row: each adds its elements, then they add theirs; else every chunk of a row reduces the
// whole row for itself.
enum class Sums : std::uint8_t { shared, alone };

double operations(const Graph& graph, const std::vector<NodeId>& roots, Sums sums = Sums::alone) {
  double total = 0;
  for (NodeId id : cone(graph, roots)) {
    const Node& node = graph.node(id);
    const auto* apply = as<Apply>(node);
    double own = apply ? operations(apply->op) : as<Gather>(node) ? kGather : as<Partner>(node) ? 1 : 0;
    if (as<Reduce>(node) && sums == Sums::shared) {
      total += kSharedSum;
      continue;
    }
    if (as<Reduce>(node))
      own = graph.info().head_dim * (kElement + operations(graph, {graph.operand(id, 0)}));
    total += node.axes.has(Axis::d) ? own : own / kChunk;
  }
  return total;
}

// ---- times ------------------------------------------------------------------------------------

// The schedule with roles transforms in a producer warp or two: their part of the issue slots, which
// instructions that wait for each other do not fill. The first tile waits for its transform, and one loader
// does what two do without transforms. Measured on an H200, 2026-11-30.
constexpr double kProducerShare = 0.085, kFirstTileSeconds = 8e-6, kLoaderLoss = 1.09;
// Threads that do nothing but transform queries: a warp for each scheduler of a core. Measured there, too.
constexpr double kTransformShare = 0.21, kFirstQuerySeconds = 2e-6, kTransformLoss = 1.03;
// Shared-memory bytes for each element of a tile's operands: written once, read by two groups.
constexpr double kOperandBytes = 6;

class Model {
 public:
  Model(const Graph& graph, const Target& target, const Schedule& schedule, const CallSizes& sizes)
      : graph_(graph), info_(graph.info()), target_(target), rates_(target.rates), schedule_(schedule) {
    batch_ = double(sizes.batch);
    sq_ = double(sizes.sq);
    skv_ = double(sizes.skv);
    bytes_ = size_in_bytes(info_.dtype);
    tiles_ = visited_tiles(graph, schedule, sizes);
    const std::int64_t query_tiles = (sizes.sq + schedule.block_q - 1) / schedule.block_q;
    const double blocks = batch_ * info_.heads * double(query_tiles);
    busy_ = std::clamp(blocks / rates_.cores, 1.0 / rates_.cores, 1.0);
    query_ = elements(TensorRole::query, sq_);
    key_ = elements(TensorRole::key, skv_);
  }

  double pre_pass(TensorRole role, bool cached) const {
    const double count = cached                      ? elements(role, std::min(sq_, skv_))
                         : role == TensorRole::query ? query_
                                                     : key_;
    if (count == 0) return 0;
    return rates_.launch_us +
           micro(std::max(2 * bytes_ * count / memory(), split_operations(graph_, role) * count / scalar()));
  }

  double attention(bool fuse_query, bool fuse_key) const {
    const double query = fuse_query ? query_ * parts() : 0;
    const double keys = fuse_key ? tiles_ * parts() * schedule_.block_k * info_.head_dim : 0;
    const double work = (query > 0 ? query * fused_operations(graph_, TensorRole::query) : 0) +
                        (keys > 0 ? keys * fused_operations(graph_, TensorRole::key) : 0);
    const double alone = plain();
    if (schedule_.groups == 0)
      return rates_.launch_us + micro(alone + work / (scalar() * busy_) + bytes_ * keys / (memory() * busy_));
    const double moved =
        kOperandBytes * tiles_ *
        (schedule_.block_q * info_.head_dim + schedule_.block_k * (info_.head_dim + info_.v_head_dim));
    const double shared = (moved + 2 * bytes_ * (query + keys)) / (rates_.shared_tbps * 1e12 * busy_);
    if (work == 0) return rates_.launch_us + micro(std::max(alone, shared));
    if (schedule_.transform_registers > 0) {
      const double rows = std::ceil(sq_ / schedule_.block_q) * schedule_.block_q;
      const double turned = elements(TensorRole::query, rows) * slot_operations();
      return rates_.launch_us +
             micro(kFirstQuerySeconds + std::max(kTransformLoss * alone + turned / (scalar() * busy_),
                                                 turned / (kTransformShare * scalar() * busy_)));
    }
    return rates_.launch_us +
           micro(kFirstTileSeconds + std::max({kLoaderLoss * alone + work / (scalar() * busy_),
                                               work / (kProducerShare * scalar() * busy_), shared}));
  }

 private:
  static double micro(double seconds) { return seconds * 1e6; }
  // Workgroups that compute the same scores.
  double parts() const {
    return schedule_.value_columns > 0 ? std::ceil(double(info_.v_head_dim) / schedule_.value_columns) : 1;
  }
  double scalar() const { return rates_.scalar_tops * 1e12; }
  double memory() const { return rates_.memory_gbps * 1e9; }

  // Of an element of the queries, by threads that do nothing else.
  double slot_operations() const {
    Graph copy = graph_;
    const bool in_place = !slot_columns(copy, transform_of(graph_, TensorRole::query), info_.head_dim,
                                        target_.pipeline->group_threads)
                               .empty();
    return in_place ? split_operations(graph_, TensorRole::query)
                    : fused_operations(graph_, TensorRole::query);
  }

  double elements(TensorRole role, double rows) const {
    const int heads = info_.score_heads * (role == TensorRole::query ? info_.heads : info_.kv_heads);
    return batch_ * heads * rows * info_.head_dim;
  }

  double plain() const {
    const double share = schedule_.groups > 0 ? rates_.pipeline_share : rates_.portable_share;
    const double scores = info_.score_heads * tiles_ * schedule_.block_q * schedule_.block_k;
    const double products =
        2 * scores * (parts() * info_.head_dim + info_.v_head_dim) / (share * rates_.matrix_tflops * 1e12);
    const double values = batch_ * info_.v_head_dim * (info_.kv_heads * skv_ + info_.heads * sq_);
    const double traffic = bytes_ * (query_ + key_ + values) / memory();
    return std::max({products, scores / (rates_.special_tops * 1e12), traffic}) / busy_ / schedule_.speed;
  }

  const Graph& graph_;
  const ProgramInfo& info_;
  const Target& target_;
  const Rates& rates_;
  const Schedule& schedule_;
  double batch_, sq_, skv_, bytes_, tiles_, busy_, query_, key_;
};

}  // namespace

std::span<const RotationInfo> rotations() { return kRotations; }

std::string_view name(Rotation rotation) { return kRotations[std::size_t(rotation)].name; }

std::optional<Rotation> rotation_from_name(std::string_view text) {
  for (const RotationInfo& row : kRotations)
    if (row.name == text) return row.rotation;
  return std::nullopt;
}

std::vector<TensorRole> split_roles(const Graph& graph, Rotation rotation) {
  std::vector<TensorRole> roles;
  if (graph.info().score_heads > 1) return roles;
  const bool query = rotation == Rotation::query || rotation == Rotation::both;
  const bool key = rotation == Rotation::key || rotation == Rotation::both;
  if (query && has_transform(graph, TensorRole::query)) roles.push_back(TensorRole::query);
  // Pages are a cache, of which a call may use little.
  if (key && has_transform(graph, TensorRole::key) && !graph.info().storage.page_size)
    roles.push_back(TensorRole::key);
  return roles;
}

double fused_operations(const Graph& graph, TensorRole role) {
  return kElement + operations(graph, {transform_of(graph, role)});
}

double split_operations(const Graph& graph, TensorRole role) {
  Graph copy = graph;
  const int columns = role == TensorRole::value ? graph.info().v_head_dim : graph.info().head_dim;
  const int heads = transform_rows(graph.info(), role).heads;
  double total = 0;
  for (const ColumnGroup& group : column_groups(copy, transform_of(graph, role), columns)) {
    std::vector<NodeId> values{group.first}, shared;
    if (group.second.valid()) values.push_back(group.second);
    for (const Let& let : group.shared) shared.push_back(let.value);
    const double one = operations(copy, values, Sums::shared) + operations(copy, shared) / heads;
    // A group's columns count twice when each has a partner further on.
    const double elements = double(group.end - group.begin) * (group.partner > 1 ? 2 : 1);
    total += one * elements / double(values.size());
  }
  return kElement + total / columns;
}

std::vector<Rotation> distinct_rotations(const Graph& graph) {
  std::vector<Rotation> distinct;
  for (Rotation rotation : {Rotation::both, Rotation::key, Rotation::query, Rotation::fuse}) {
    const auto same = [&](Rotation other) {
      return split_roles(graph, other) == split_roles(graph, rotation);
    };
    // Of names for the same thing the plainer one: "both" of one role is that role.
    const std::span<const RotationInfo> simpler(kRotations + 1, kRotations + std::size_t(rotation));
    if (std::ranges::none_of(simpler, [&](const RotationInfo& row) { return same(row.rotation); }))
      distinct.push_back(rotation);
  }
  return distinct;
}

std::vector<RotationCost> rotation_costs(const Graph& graph, const Target& target,
                                         const RotationSchedules& schedules, const CallSizes& sizes) {
  std::vector<RotationCost> costs, cached;
  for (const auto& [rotation, schedule] : schedules) {
    const Model model(graph, target, schedule, sizes);
    const std::vector<TensorRole> roles = split_roles(graph, rotation);
    const auto is_split = [&](TensorRole role) { return std::ranges::find(roles, role) != roles.end(); };
    const bool query = is_split(TensorRole::query), key = is_split(TensorRole::key);
    RotationCost cost{rotation, false, 0, 0, 0};
    if (query) cost.query_us = model.pre_pass(TensorRole::query, false);
    if (key) cost.key_us = model.pre_pass(TensorRole::key, false);
    cost.attention_us = model.attention(!query && has_transform(graph, TensorRole::query),
                                        !key && has_transform(graph, TensorRole::key));
    costs.push_back(cost);
    if (!key) continue;
    cost.cached = true;
    cost.key_us = model.pre_pass(TensorRole::key, true);
    cached.push_back(cost);
  }
  costs.insert(costs.end(), cached.begin(), cached.end());
  return costs;
}

Rotation choose_rotation(std::span<const RotationCost> costs) {
  const RotationCost* best = nullptr;
  for (const RotationCost& cost : costs)
    if (!cost.cached && (!best || cost.total_us() < best->total_us())) best = &cost;
  ATTNFUSE_CHECK(best, "no choice");
  return best->rotation;
}

}  // namespace attnfuse
