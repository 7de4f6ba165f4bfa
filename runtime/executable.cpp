#include "runtime/executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "passes/share_keys.h"
#include "runtime/call_sizes.h"
#include "runtime/compile.h"
#include "runtime/plan_rotation.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

TensorLayout layout_of(const BoundTensor& tensor) {
  const auto first = [&](const auto& values) {
    return std::vector<std::int64_t>(values.begin(), values.begin() + tensor.rank);
  };
  return {tensor.dtype, first(tensor.shape), first(tensor.strides)};
}

// An address that no kernel may get.
std::optional<Diagnostic> check_address(const std::string& name, const BoundTensor& tensor, bool is_output) {
  const auto* const used = tensor.shape.begin() + tensor.rank;
  const bool is_empty = std::find(tensor.shape.begin(), used, 0) != used;
  const int element = size_in_bytes(tensor.dtype);
  const char* code = is_output ? "output.address" : "input.address";
  if (tensor.address == 0 && !is_empty)
    return Diagnostic{code, fmt::format("tensor '{}' is at address 0", name), {}, "give its device address"};
  if (tensor.address % std::uint64_t(element) != 0)
    return Diagnostic{code,
                      fmt::format("tensor '{}' is at {:#x}, which is no multiple of its {} bytes an element",
                                  name, tensor.address, element),
                      {},
                      "copy the tensor to an aligned address"};
  return {};
}

// More keys than the device's driver takes.
std::optional<Diagnostic> check_length(const ProgramInfo& info, const Target& target, const Sizes& sizes) {
  const std::int64_t most = most_keys(info, target);
  if (most == 0 || sizes.skv <= most * sizes.shares) return {};
  return Diagnostic{
      "launch.too-long",
      fmt::format("{} keys of head_dim {}; the driver of this device ends loops early, at most {} are safe",
                  sizes.skv, std::max(info.head_dim, info.v_head_dim), most),
      {},
      "use a shorter call or another device"};
}

// A tensor of one row a head, [batch, heads, 1, ...], as [batch, kv_heads, heads / kv_heads, ...].
BoundTensor grouped(BoundTensor tensor, const ProgramInfo& info) {
  const int group = info.heads / info.kv_heads;
  tensor.shape[1] = info.kv_heads;
  tensor.shape[2] = group;
  tensor.strides[2] = tensor.strides[1];
  tensor.strides[1] *= group;
  return tensor;
}

// Which of the tensors have a row for each head: the queries and the outputs.
std::vector<std::size_t> by_head(const TileProgram& program, std::span<const std::string> names) {
  std::vector<std::size_t> result;
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto is_output = [&](const OutputInfo& output) { return output.name == names[n]; };
    const TensorId input = program.expressions.find_tensor(names[n]);
    if (std::ranges::any_of(program.outputs, is_output) ||
        (input.valid() && program.expressions.tensor(input).role == TensorRole::query))
      result.push_back(n);
  }
  return result;
}

}  // namespace

Executable::Executable(Graph graph, Machine machine, std::unique_ptr<Planner> planner)
    : graph_(std::move(graph)), machine_(std::move(machine)), planner_(std::move(planner)) {
  if (machine_.target.pipeline) engine_alignment_ = machine_.target.pipeline->alignment;
  declared_ = call_tensors(graph_);
  for (const CallTensor& tensor : declared_) names_.push_back(tensor.name);
}

Result<std::shared_ptr<Executable>> Executable::prepare(const Graph& graph, const Machine& machine,
                                                        const CompileOptions& options) {
  return prepare(graph, machine, options, KernelCache::standard());
}

Result<std::shared_ptr<Executable>> Executable::prepare(const Graph& graph, const Machine& machine,
                                                        const CompileOptions& options, KernelCache& cache) {
  return prepare(graph, machine, rotation_planner(graph, machine, options, cache));
}

Result<std::shared_ptr<Executable>> Executable::prepare(const Graph& graph, const Machine& machine,
                                                        std::unique_ptr<Planner> planner) {
  const auto made = std::shared_ptr<Executable>(new Executable(graph, machine, std::move(planner)));
  auto first = made->make_plan(0, made->engine_alignment_ > 0 ? Access::copy_engine : Access::vector);
  if (!first) return first.errors();
  return made;
}

Result<std::vector<BoundTensor>> Executable::bind(const DeviceTensors& tensors) const {
  std::map<std::string, TensorLayout> layouts;
  for (const auto& [name, tensor] : tensors) layouts.emplace(name, tensor.layout);
  if (const auto sizes = check_call(graph_, layouts); !sizes) return sizes.errors();
  std::vector<BoundTensor> in_order;
  for (const std::string& name : names_) in_order.push_back(bound(tensors.at(name)));
  return in_order;
}

// Accepts what a full check accepts, without its words; what it does not accept gets the full check.
std::optional<Sizes> Executable::quick_check(std::span<const BoundTensor> tensors) const {
  constexpr std::int64_t kMaxReach = std::int64_t(1) << 56;
  KnownSizes sizes(graph_.info());
  if (tensors.size() != declared_.size()) return {};
  for (std::size_t n = 0; n < tensors.size(); ++n) {
    const BoundTensor& tensor = tensors[n];
    const CallTensor& declared = declared_[n];
    const std::size_t rank = declared.shape.size();
    if (tensor.dtype != declared.dtype || tensor.rank != int(rank) || tensor.address == 0 ||
        tensor.address % std::uint64_t(size_in_bytes(tensor.dtype)) != 0)
      return {};
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t found = tensor.shape[axis], stride = tensor.strides[axis];
      const std::int64_t wanted = sizes.expect(declared.shape[axis], found);
      if (found != wanted || found < 0 || found > KnownSizes::kMost || stride < 0) return {};
      if (found > 1 && (stride > kMaxReach / found || (declared.is_output && stride == 0))) return {};
    }
    if (declared.has_contiguous_axis && tensor.shape[rank - 1] > 1 && tensor.strides[rank - 1] != 1)
      return {};
  }
  return sizes.sizes();
}

Result<Sizes> Executable::check(std::span<const BoundTensor> tensors) const {
  if (const auto sizes = quick_check(tensors)) return *sizes;
  ATTNFUSE_CHECK(tensors.size() == names_.size(), "a call has one tensor for every name");
  std::map<std::string, TensorLayout> layouts;
  for (std::size_t n = 0; n < tensors.size(); ++n) layouts.emplace(names_[n], layout_of(tensors[n]));
  auto sizes = check_call(graph_, layouts);
  if (!sizes) return sizes;
  Diagnostics errors;
  for (std::size_t n = 0; n < tensors.size(); ++n)
    if (auto error = check_address(names_[n], tensors[n], declared_[n].is_output))
      errors.push_back(std::move(*error));
  if (!errors.empty()) return errors;
  return sizes;
}

Access Executable::access_of_call(std::span<const BoundTensor> tensors) const {
  Access all = Access::copy_engine;
  for (std::size_t n = 0; n < tensors.size(); ++n)
    if (declared_[n].has_contiguous_axis) all = std::min(all, access_of(tensors[n], engine_alignment_));
  return all;
}

Result<Sizes> Executable::supports(std::span<const BoundTensor> tensors) {
  auto sizes = check(tensors);
  if (!sizes) return sizes;
  const std::lock_guard lock(mutex_);
  const auto bound = bound_plan(*sizes, access_of_call(tensors));
  if (!bound) return bound.errors();
  return sizes;
}

Result<const Plan*> Executable::plan_for(std::span<const BoundTensor> tensors) {
  const auto sizes = check(tensors);
  if (!sizes) return sizes.errors();
  const std::lock_guard lock(mutex_);
  const auto bound = bound_plan(*sizes, access_of_call(tensors));
  if (!bound) return bound.errors();
  return &(*bound)->plan;
}

Result<std::size_t> Executable::workspace_bytes(const Sizes& sizes) {
  const std::lock_guard lock(mutex_);
  const auto bound = bound_plan(sizes, Access::copy_engine);
  if (!bound) return bound.errors();
  return place_workspace(**bound, divided(sizes), 0);
}

Sizes Executable::divided(Sizes sizes) const {
  sizes.shares = planner_->shares(sizes);
  return sizes;
}

Status Executable::launch(std::span<const BoundTensor> tensors, const LaunchSite& site) {
  const auto checked = check(tensors);
  if (!checked) return checked.errors();
  const Sizes sizes = divided(*checked);
  if (auto error = check_length(graph_.info(), machine_.target, sizes)) return *error;
  const std::lock_guard lock(mutex_);
  const auto found = bound_plan(sizes, access_of_call(tensors));
  if (!found) return found.errors();
  Bound& bound = **found;
  std::ranges::copy(tensors, bound.tensors.begin());
  const std::size_t bytes = place_workspace(bound, sizes, site.workspace);
  if (bytes > 0 &&
      (site.workspace == 0 || site.workspace % kWorkspaceAlignment != 0 || site.workspace_bytes < bytes))
    return Diagnostic{
        "launch.workspace",
        fmt::format("this call needs a workspace of {} bytes at a multiple of {}, and gets {} bytes at {:#x}",
                    bytes, kWorkspaceAlignment, site.workspace_bytes, site.workspace),
        {},
        "ask for workspace_bytes and allocate them"};
  Device& device = *machine_.device;
  for (std::size_t n = 0; n < bound.steps.size(); ++n) {
    const Step& step = bound.plan.steps[n];
    Bound::StepState& state = bound.steps[n];
    Sizes seen = sizes;
    if (step.groups_queries) {
      seen.sq = graph_.info().heads / graph_.info().kv_heads;
      bound.grouped = bound.tensors;
      for (std::size_t at : state.by_head) bound.grouped[at] = grouped(bound.tensors[at], graph_.info());
    }
    if (step.divides_keys) seen.batch *= seen.shares;
    Launch launch = launch_shape(step.kernel->program, seen);
    if (launch.grid[0] == 0) continue;
    launch.stream = site.stream;
    launch.overlaps_previous = n > 0 && step.overlaps_previous;
    std::uint64_t counter = 0;
    if (state.counters) {
      const auto address = state.counters->address_for(site.stream);
      if (!address) return address.errors();
      counter = *address;
    }
    const auto block =
        state.arguments.fill(step.groups_queries ? bound.grouped : bound.tensors, seen, counter, device);
    if (!block) return block.errors();
    if (auto status = device.launch(*step.kernel->module, launch, *block); !status) return status;
  }
  return Unit{};
}

Result<Executable::Bound*> Executable::bound_plan(const Sizes& sizes, Access access) {
  if (engine_alignment_ == 0) access = std::min(access, Access::vector);
  const int variant = planner_->variant(sizes);
  for (const Kept& kept : plans_)
    if (kept.variant == variant && kept.access == access) return kept.bound.get();
  auto made = make_plan(variant, access);
  if (!made) return made.errors();
  return made->get();
}

Result<std::shared_ptr<Executable::Bound>> Executable::make_plan(int variant, Access access) {
  auto plan = planner_->plan(variant, access);
  if (!plan) return plan.errors();
  const auto bound = std::make_shared<Bound>();
  bound->plan = std::move(plan).value();
  std::vector<std::string> names = names_;
  for (const WorkspaceTensor& tensor : bound->plan.workspace) names.push_back(tensor.name);
  bound->tensors.resize(names.size());
  bool uses_engine = false;
  for (const Step& step : bound->plan.steps) {
    std::vector<std::string> step_names = names;
    for (const auto& [own, given] : step.renamed)
      for (std::size_t n = 0; n < names.size(); ++n)
        if (names[n] == own || names[n] == given) step_names[n] = names[n] == given ? own : "";
    const TileProgram& program = step.kernel->program;
    Bound::StepState state{ArgumentBlock(program, step_names), {}, {}};
    if (step.groups_queries) state.by_head = by_head(program, step_names);
    std::erase_if(state.by_head, [&](std::size_t at) {  // rows already
      return at >= names_.size() && bound->plan.workspace[at - names_.size()].by_share;
    });
    if (state.arguments.has_counter()) {
      auto counters = Counters::create(machine_.device);
      if (!counters) return counters.errors();
      state.counters = std::move(counters).value();
    }
    bound->steps.push_back(std::move(state));
    uses_engine = uses_engine || program.schedule.groups > 0;
  }
  plans_.push_back({variant, access, bound});
  // Without roles it is what tensors get that the copy engine does not take.
  if (access == Access::copy_engine && !uses_engine) plans_.push_back({variant, Access::vector, bound});
  return bound;
}

std::size_t Executable::place_workspace(Bound& bound, const Sizes& sizes, std::uint64_t address) const {
  std::size_t bytes = 0;
  for (std::size_t n = 0; n < bound.plan.workspace.size(); ++n) {
    const WorkspaceTensor& tensor = bound.plan.workspace[n];
    BoundTensor& place = bound.tensors[names_.size() + n];
    place.address = address + bytes;
    place.dtype = tensor.dtype;
    place.rank = int(tensor.shape.size());
    std::int64_t elements = 1;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
      place.shape[axis] = length_in_call(tensor.shape[axis], graph_.info(), sizes);
      if (axis == 0 && tensor.by_share) place.shape[axis] *= sizes.shares;
      place.strides[axis] = elements;
      elements *= place.shape[axis];
    }
    bytes += std::size_t(elements) * std::size_t(size_in_bytes(tensor.dtype));
    bytes = (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }
  return bytes;
}

}  // namespace attnfuse
