#include "runtime/plan_rotation.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "ir/analysis.h"
#include "ir/storage.h"
#include "passes/data_bounds.h"
#include "passes/group_queries.h"
#include "passes/share_keys.h"
#include "runtime/compile.h"
#include "runtime/machine.h"

namespace attnfuse {
namespace {

// Sizes whose costs are near enough: the next number with five significant bits. Decoding grows skv step by
// step, and must not be thought over each time.
std::int64_t rounded(std::int64_t size) {
  constexpr int kBits = 5;
  const int width = int(std::bit_width(std::uint64_t(size)));
  const std::int64_t unit = std::int64_t(1) << std::max(0, width - kBits);
  return (size + unit - 1) / unit * unit;
}

// One of the choices that differ for the program, by sizes.
class Chooser {
 public:
  Chooser(Graph optimized, Target target, RotationSchedules schedules)
      : graph_(std::move(optimized)), target_(std::move(target)), schedules_(std::move(schedules)) {}

  Rotation choose(const Sizes& sizes) {
    const CallSizes call{rounded(sizes.batch), rounded(sizes.sq), rounded(sizes.skv)};
    const std::lock_guard lock(mutex_);
    for (const Known& known : known_)
      if (known.batch == call.batch && known.sq == call.sq && known.skv == call.skv) return known.rotation;
    const Rotation rotation = choose_rotation(rotation_costs(graph_, target_, schedules_, call));
    if (known_.size() == kMost) known_.erase(known_.begin());
    known_.push_back({call.batch, call.sq, call.skv, rotation});
    return rotation;
  }

 private:
  static constexpr std::size_t kMost = 64;
  struct Known {
    std::int64_t batch, sq, skv;
    Rotation rotation;
  };
  Graph graph_;
  Target target_;
  RotationSchedules schedules_;
  std::mutex mutex_;
  std::vector<Known> known_;
};

class RotationPlanner : public Planner {
 public:
  RotationPlanner(Graph graph, Machine machine, CompileOptions options, KernelCache& cache,
                  TransformRows keys)
      : graph_(std::move(graph)),
        machine_(std::move(machine)),
        options_(std::move(options)),
        cache_(cache),
        keys_(keys) {
    lengths_ = length_classes(graph_.info(), machine_.target);
    const bool is_free = options_.rotation == Rotation::automatic;
    choices_ = {is_free ? Rotation::fuse : options_.rotation};
    if (!verify(graph_).empty()) return;  // planning says what is wrong
    const auto optimized = run_graph_passes(graph_);
    has_data_bounds_ = optimized && has_data_bounds(*optimized);
    may_group_ = has_query_groups(graph_) && !has_data_bounds_ && !graph_.info().storage.ragged;
    may_share_ = optimized && can_share_keys(*optimized) && !has_data_bounds_;
    if (!is_free) return;
    choices_ = distinct_rotations(graph_);
    if (choices_.size() == 1) return;
    const auto schedules = rotation_schedules(graph_, machine_.target, options_);
    if (!optimized || !schedules) {
      choices_ = {Rotation::fuse};
      return;
    }
    std::erase_if(choices_, [&](Rotation choice) { return schedules->count(choice) == 0; });
    chooser_ = std::make_unique<Chooser>(*optimized, machine_.target, *schedules);
  }

  // Choices of all lengths, then those of the first class of lengths, and so on, then those of one query row.
  // All again where shares of the keys are merged.
  int variant(const Sizes& sizes) const override {
    const int count = int(choices_.size());
    const Sizes usual = typical(sizes);
    int length = 0;
    for (int n = int(lengths_.size()) - 1; n > 0; --n)
      if (usual.sq <= lengths_[std::size_t(n)]) length = n;
    if (groups(sizes)) length = int(lengths_.size());
    if (shares(sizes) > 1) length += int(lengths_.size()) + 1;
    const auto choice = chooser_ ? std::ranges::find(choices_, chooser_->choose(usual)) : choices_.begin();
    return length * count + int(choice - choices_.begin());
  }

  int shares(const Sizes& sizes) const override {
    if (!may_share_) return 1;
    ProgramInfo info = graph_.info();
    const std::int64_t rows = groups(sizes) ? info.heads / info.kv_heads : sizes.sq;
    if (groups(sizes)) info.heads = info.kv_heads;
    return key_shares(info, machine_.target, sizes.batch, rows, sizes.skv);
  }

  Result<Plan> plan(int variant, Access access) override {
    if (Diagnostics mistakes = verify(graph_); !mistakes.empty()) return mistakes;
    CompileOptions options = options_;
    options.copy_engine = access == Access::copy_engine;
    options.vector_bytes = access == Access::element ? size_in_bytes(graph_.info().dtype) : 16;
    std::size_t length = std::size_t(variant) / choices_.size();
    const bool shares = length > lengths_.size();
    if (shares) length -= lengths_.size() + 1;
    const bool groups = length == lengths_.size();
    options.sq = groups ? graph_.info().heads / graph_.info().kv_heads : lengths_.at(length);
    const std::vector<TensorRole> roles =
        split_roles(graph_, choices_.at(std::size_t(variant) % choices_.size()));
    Plan plan;
    std::map<std::string, std::string> renamed;
    for (TensorRole role : roles) {
      const TransformRows rows = role == TensorRole::key ? keys_ : TransformRows::all;
      auto program = compile_transform(graph_, role, machine_.target, options, rows);
      if (!program) return program.errors();
      auto kernel = loaded(*program);
      if (!kernel) return kernel.errors();
      const TensorInfo& source = graph_.tensor(tensor_of(graph_, role));
      const std::string output = program->outputs.at(0).name;
      plan.workspace.push_back(
          {output, source.dtype, stored_shape(graph_.info().storage, row_side(role), source.shape)});
      renamed[source.name] = output;
      plan.steps.push_back({std::move(kernel).value(), {}, waits_for_others(*program)});
    }
    if (has_data_bounds_) options.around.data_bounds = data_bounds_name(graph_);
    options.chained = !roles.empty() || has_data_bounds_;
    Graph attention = roles.empty() ? graph_ : split_transform(graph_, roles);
    if (groups) attention = group_queries(attention);
    options.around.shares_keys = shares;
    auto kernel = load_kernel(attention, machine_, options, cache_);
    if (!kernel) return kernel.errors();
    if (shares)
      for (const SharedOutput& output : shared_outputs(attention)) renamed[output.output] = output.shares;
    if (has_data_bounds_)
      if (auto added = add_data_bounds(plan, (*kernel)->program.schedule); !added) return added.errors();
    plan.steps.push_back({*kernel, std::move(renamed), waits_for_others((*kernel)->program), groups, shares});
    if (shares)
      if (auto added = add_merge(plan, attention, options, groups); !added) return added.errors();
    return plan;
  }

 private:
  // Of ragged sequences only the average length is known.
  Sizes typical(Sizes sizes) const {
    const auto average = [&](std::int64_t total) { return (total + sizes.batch - 1) / sizes.batch; };
    const Storage& storage = graph_.info().storage;
    if (!storage.ragged || sizes.batch == 0) return sizes;
    sizes.sq = average(sizes.total_q);
    if (!storage.page_size) sizes.skv = average(sizes.total_k);
    return sizes;
  }
  bool groups(const Sizes& sizes) const { return may_group_ && sizes.sq == 1; }

  // The step that merges the outputs of shares, and where these lie.
  Status add_merge(Plan& plan, const Graph& attention, const CompileOptions& options, bool groups) {
    auto program = compile_merge(attention, machine_.target, options.vector_bytes);
    if (!program) return program.errors();
    auto kernel = loaded(*program);
    if (!kernel) return kernel.errors();
    const ProgramInfo& info = attention.info();
    const Extent rows = groups ? Extent{std::int64_t(graph_.info().heads / info.kv_heads)} : Extent{Size::sq};
    const std::vector<Extent> shape = {Extent{Size::batch}, Extent{std::int64_t(info.heads)}, rows};
    const std::vector<SharedOutput> shared = shared_outputs(attention);
    std::vector<Extent> with_dim = shape;
    with_dim.push_back(Extent{std::int64_t(info.v_head_dim)});
    plan.workspace.push_back({shared[0].shares, info.dtype, with_dim, true});
    plan.workspace.push_back({shared[1].shares, DType::f32, shape, true});
    plan.steps.push_back({std::move(kernel).value(), {}, waits_for_others(*program), groups});
    return Unit{};
  }

  // The step that finds key bounds for attention in these tiles.
  Status add_data_bounds(Plan& plan, const Schedule& attention) {
    auto program = compile_data_bounds(graph_, machine_.target, attention);
    if (!program) return program.errors();
    auto kernel = loaded(*program);
    if (!kernel) return kernel.errors();
    const TensorInfo table = data_bounds_tensor(graph_, data_bounds_name(graph_));
    plan.workspace.push_back({table.name, table.dtype, table.shape});
    plan.steps.push_back({std::move(kernel).value(), {}, waits_for_others(*program)});
    return Unit{};
  }

  Result<std::shared_ptr<const Kernel>> loaded(const TileProgram& program) {
    auto compiled = compile(program, *machine_.backend, cache_);
    if (!compiled) return compiled.errors();
    auto made = std::move(compiled).value();
    auto module = machine_.device->load(made.binary);
    if (!module) return module.errors();
    return std::shared_ptr<const Kernel>(std::make_shared<Kernel>(
        Kernel{std::move(made.program), std::move(made.binary), std::move(module).value()}));
  }

  Graph graph_;
  Machine machine_;
  CompileOptions options_;
  KernelCache& cache_;
  TransformRows keys_;
  std::vector<Rotation> choices_;
  std::vector<int> lengths_;  // see length_classes
  bool has_data_bounds_ = false;
  bool may_group_ = false, may_share_ = false;
  std::unique_ptr<Chooser> chooser_;
};

}  // namespace

std::unique_ptr<Planner> rotation_planner(Graph graph, Machine machine, CompileOptions options,
                                          KernelCache& cache, TransformRows keys) {
  return std::make_unique<RotationPlanner>(std::move(graph), std::move(machine), std::move(options), cache,
                                           keys);
}

}  // namespace attnfuse
