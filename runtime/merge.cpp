#include "runtime/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "passes/share_keys.h"
#include "runtime/compile.h"
#include "runtime/execute.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

constexpr std::size_t kParts = 0, kPartsLse = 1, kOutput = 2;  // of a call's tensors

// A sink that every part has counts once for each of them.
bool has_own_sink(const Graph& graph) {
  const NodeId normalize = find<Normalize>(graph);
  if (as<Normalize>(graph.node(normalize))->kind != NormalizeKind::softmax_sink) return false;
  return std::ranges::none_of(cone(graph, {graph.operand(normalize, 2)}),
                              [&](NodeId id) { return as<Gather>(graph.node(id)) != nullptr; });
}

// Where the parts lie along o_parts and lse_parts.
std::size_t parts_axis(const ProgramInfo& info) { return info.storage.ragged ? 0 : 1; }

struct MergeSizes {
  std::int64_t batch, parts, rows;
};

// How many parts a call has, as far as its first tensor says.
std::int64_t parts_of(const ProgramInfo& info, std::span<const std::int64_t> shape) {
  const std::size_t axis = parts_axis(info);
  return shape.size() > axis ? std::max<std::int64_t>(shape[axis], 0) : 0;
}

Result<MergeSizes> check(const ProgramInfo& info, std::int64_t parts, bool with_outputs,
                         const std::map<std::string, TensorLayout>& given) {
  std::vector<CallTensor> declared = merge_tensors(info, parts);
  if (!with_outputs) std::erase_if(declared, [](const CallTensor& tensor) { return tensor.is_output; });
  const auto sizes = check_tensors(info, declared, given);
  if (!sizes) return sizes.errors();
  if (parts == 0)
    return Diagnostic{
        "input.shape", "there are no parts to merge", {}, "give o_parts and lse_parts at least one"};
  return info.storage.ragged ? MergeSizes{1, parts, sizes->total_q}
                             : MergeSizes{sizes->batch, parts, sizes->sq};
}

TensorLayout layout_of(const BoundTensor& tensor) {
  const auto rank = std::ptrdiff_t(tensor.rank);
  return {tensor.dtype,
          {tensor.shape.begin(), tensor.shape.begin() + rank},
          {tensor.strides.begin(), tensor.strides.begin() + rank}};
}

Status check_address(const CallTensor& declared, const BoundTensor& tensor) {
  const auto element = std::uint64_t(size_in_bytes(tensor.dtype));
  if (tensor.address != 0 && tensor.address % element == 0) return Unit{};
  return Diagnostic{declared.is_output ? "output.address" : "input.address",
                    fmt::format("tensor '{}' is at {:#x}; it must be a multiple of {} that is not 0",
                                declared.name, tensor.address, element),
                    {},
                    "give its device address"};
}

// One batch entry of a tensor, or (all of them) its parts as the entries that the kernel counts.
BoundTensor without_axis(BoundTensor tensor, std::size_t axis) {
  std::copy(tensor.shape.begin() + std::ptrdiff_t(axis) + 1, tensor.shape.end(),
            tensor.shape.begin() + std::ptrdiff_t(axis));
  std::copy(tensor.strides.begin() + std::ptrdiff_t(axis) + 1, tensor.strides.end(),
            tensor.strides.begin() + std::ptrdiff_t(axis));
  --tensor.rank;
  return tensor;
}
BoundTensor with_batch_axis(BoundTensor tensor) {
  std::copy_backward(tensor.shape.begin(), tensor.shape.end() - 1, tensor.shape.end());
  std::copy_backward(tensor.strides.begin(), tensor.strides.end() - 1, tensor.strides.end());
  tensor.shape[0] = 1;
  tensor.strides[0] = 0;
  ++tensor.rank;
  return tensor;
}
BoundTensor moved(BoundTensor tensor, std::int64_t elements) {
  tensor.address += std::uint64_t(elements * size_in_bytes(tensor.dtype));
  return tensor;
}

}  // namespace

Diagnostics check_merge(const Graph& graph) {
  if (Diagnostics mistakes = verify(graph); !mistakes.empty()) return mistakes;
  const auto optimized = run_graph_passes(graph);
  if (!optimized) return optimized.errors();
  const Where& where = graph.info().where;
  const std::string said =
      fmt::format("outputs of program '{}' over parts of the keys cannot be merged: ", graph.info().name);
  if (const std::string why = merge_refusal(*optimized); !why.empty())
    return {{"merge.program", said + why, where,
             "normalize with softmax, and apply output lines to what the merge gives"}};
  if (has_own_sink(*optimized))
    return {{"merge.program", said + "its sink is a part of the program, and would count once for each part",
             where, "normalize with softmax(sink = s), s a tensor that is -inf for all parts but one"}};
  return {};
}

std::vector<CallTensor> merge_tensors(const ProgramInfo& info, std::int64_t parts) {
  std::vector<Extent> rows{{Size::heads}, {info.storage.ragged ? Size::total_q : Size::sq}};
  if (!info.storage.ragged) rows.insert(rows.begin(), Extent{Size::batch});
  std::vector<Extent> by_part = rows;
  by_part.insert(by_part.begin() + std::ptrdiff_t(parts_axis(info)), Extent{parts});
  const auto with_dim = [](std::vector<Extent> shape) {
    shape.push_back({Size::v_head_dim});
    return shape;
  };
  return {{"o_parts", info.dtype, with_dim(by_part), true, false, {}},
          {"lse_parts", DType::f32, by_part, false, false, {}},
          {"o", info.dtype, with_dim(rows), true, true, {}},
          {"lse", DType::f32, rows, false, true, {}}};
}

Result<std::shared_ptr<Merge>> Merge::prepare(const Graph& graph, const Machine& machine) {
  return prepare(graph, machine, KernelCache::standard());
}

Result<std::shared_ptr<Merge>> Merge::prepare(const Graph& graph, const Machine& machine,
                                              KernelCache& cache) {
  if (Diagnostics mistakes = check_merge(graph); !mistakes.empty()) return mistakes;
  std::shared_ptr<Merge> merge(new Merge(graph, machine, cache));
  if (const auto kernel = merge->bound_kernel(Access::vector); !kernel) return kernel.errors();
  return merge;
}

Result<Merge::Bound*> Merge::bound_kernel(Access access) {
  std::unique_ptr<Bound>& kept = access == Access::element ? by_element_ : by_vector_;
  if (kept) return kept.get();
  const int bytes = access == Access::element ? size_in_bytes(graph_.info().dtype) : 16;
  const auto program = compile_merge(graph_, machine_.target, bytes);
  if (!program) return program.errors();
  auto compiled = compile(*program, *machine_.backend, cache_);
  if (!compiled) return compiled.errors();
  auto module = machine_.device->load(compiled->binary);
  if (!module) return module.errors();
  const std::vector<SharedOutput> shared = shared_outputs(graph_);
  const std::string names[] = {shared[0].shares, shared[1].shares, shared[0].output, shared[1].output};
  ArgumentBlock arguments(compiled->program, names);
  kept = std::make_unique<Bound>(
      Bound{{std::move(compiled->program), std::move(compiled->binary), std::move(module).value()},
            std::move(arguments)});
  return kept.get();
}

Status check_merge_call(const ProgramInfo& info, const std::map<std::string, TensorLayout>& tensors) {
  const auto first = tensors.find("o_parts");
  const auto sizes =
      check(info, first == tensors.end() ? 0 : parts_of(info, first->second.shape), true, tensors);
  if (!sizes) return sizes.errors();
  return Unit{};
}

Status Merge::launch(std::span<const BoundTensor> tensors, void* stream) {
  const ProgramInfo& info = graph_.info();
  const std::vector<CallTensor> declared = merge_tensors(info, 0);
  ATTNFUSE_CHECK(tensors.size() == declared.size(), "a merge has one tensor for every name");
  std::map<std::string, TensorLayout> layouts;
  for (std::size_t n = 0; n < tensors.size(); ++n) layouts.emplace(declared[n].name, layout_of(tensors[n]));
  const auto sizes = check(info, parts_of(info, layouts.at("o_parts").shape), true, layouts);
  if (!sizes) return sizes.errors();
  if (sizes->batch == 0 || sizes->rows == 0) return Unit{};
  for (std::size_t n = 0; n < tensors.size(); ++n)
    if (auto status = check_address(declared[n], tensors[n]); !status) return status;

  std::vector<BoundTensor> seen(tensors.begin(), tensors.end());
  if (info.storage.ragged)
    for (BoundTensor& tensor : seen) tensor = with_batch_axis(tensor);
  Access access = Access::vector;
  for (std::size_t n : {kParts, kOutput}) access = std::min(access, access_of(seen[n], 0));
  // The kernel's entries of o_parts and lse_parts are b * parts + part.
  const auto is_dense = [&](std::size_t n) {
    return sizes->batch == 1 || seen[n].strides[0] == sizes->parts * seen[n].strides[1];
  };
  const std::int64_t entries = is_dense(kParts) && is_dense(kPartsLse) ? 1 : sizes->batch;
  Sizes call;
  call.batch = sizes->batch / entries;
  call.sq = sizes->rows;
  call.shares = sizes->parts;

  const std::lock_guard lock(mutex_);
  const auto bound = bound_kernel(access);
  if (!bound) return bound.errors();
  Launch shape = launch_shape((*bound)->kernel.program, call);
  shape.stream = stream;
  for (std::int64_t entry = 0; entry < entries; ++entry) {
    std::vector<BoundTensor> own;
    for (const BoundTensor& tensor : seen) own.push_back(moved(tensor, entry * tensor.strides[0]));
    for (std::size_t n : {kParts, kPartsLse}) own[n] = without_axis(own[n], 0);
    const auto block = (*bound)->arguments.fill(own, call, 0, *machine_.device);
    if (!block) return block.errors();
    if (auto status = machine_.device->launch(*(*bound)->kernel.module, shape, *block); !status)
      return status;
  }
  return Unit{};
}

Result<HostTensors> reference_merge(const Graph& graph, const HostTensors& parts) {
  if (Diagnostics mistakes = check_merge(graph); !mistakes.empty()) return mistakes;
  const ProgramInfo& info = graph.info();
  std::map<std::string, TensorLayout> layouts;
  for (const auto& [name, tensor] : parts) layouts.emplace(name, tensor.layout);
  const auto first = layouts.find("o_parts");
  const auto sizes =
      check(info, first == layouts.end() ? 0 : parts_of(info, first->second.shape), false, layouts);
  if (!sizes) return sizes.errors();
  const HostTensor &o_parts = parts.at("o_parts"), &lse_parts = parts.at("lse_parts");
  std::vector<std::int64_t> rows{info.heads, sizes->rows};
  if (!info.storage.ragged) rows.insert(rows.begin(), sizes->batch);
  HostTensor lse = HostTensor::zeros(TensorLayout::contiguous(DType::f32, rows));
  std::vector<std::int64_t> with_dim = rows;
  with_dim.push_back(info.v_head_dim);
  HostTensor o = HostTensor::zeros(TensorLayout::contiguous(info.dtype, with_dim));

  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto part_axis = std::ptrdiff_t(parts_axis(info));
  for (std::int64_t row = 0; row < sizes->batch * info.heads * sizes->rows; ++row) {
    std::vector<std::int64_t> at{row / sizes->rows % info.heads, row % sizes->rows};
    if (!info.storage.ragged) at.insert(at.begin(), row / sizes->rows / info.heads);
    std::vector<std::int64_t> from = at;
    from.insert(from.begin() + part_axis, 0);
    std::int64_t& part = from[std::size_t(part_axis)];
    double top = -kInfinity, sum = 0;
    for (part = 0; part < sizes->parts; ++part) {
      const double own = lse_parts.get(from);
      if (own > top || std::isnan(own)) top = own;
      if (std::isnan(top)) break;
    }
    std::vector<double> values(std::size_t(info.v_head_dim));
    for (part = 0; part < sizes->parts; ++part) {
      const double own = lse_parts.get(from);
      if (own == -kInfinity && !std::isnan(top)) continue;
      const double weight = std::exp(own - top);
      sum += weight;
      std::vector<std::int64_t> element = from;
      element.push_back(0);
      for (std::int64_t& d = element.back(); d < info.v_head_dim; ++d)
        values[std::size_t(d)] += weight * o_parts.get(element);
    }
    lse.set(at, top == -kInfinity ? top : top + std::log(sum));
    at.push_back(0);
    for (std::int64_t& d = at.back(); d < info.v_head_dim; ++d)
      o.set(at, top == -kInfinity ? 0 : values[std::size_t(d)] / sum);
  }
  HostTensors merged;
  merged.emplace("o", std::move(o));
  merged.emplace("lse", std::move(lse));
  return merged;
}

}  // namespace attnfuse
