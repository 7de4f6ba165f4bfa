#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "ir/storage.h"
#include "ir/text.h"
#include "runtime/call_sizes.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

std::string code(const CallTensor& tensor, const char* what) {
  return fmt::format("{}.{}", tensor.is_output ? "output" : "input", what);
}

std::string shape_text(const CallTensor& tensor) {
  std::vector<std::string> extents;
  for (const Extent& extent : tensor.shape) extents.push_back(to_string(extent));
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

// The sizes of one call, and who says so.
class CallSizes {
 public:
  explicit CallSizes(const ProgramInfo& info) : known_(info) {
    for (Size size : {Size::heads, Size::kv_heads, Size::head_dim, Size::v_head_dim})
      said_by_[std::size_t(size)] = kProgram;
  }
  std::pair<std::int64_t, std::string> expect(const Extent& extent, std::int64_t found,
                                              const std::string& tensor) {
    const auto* size = std::get_if<Size>(&extent.value);
    if (size == nullptr) return {known_.expect(extent, found), kProgram};
    std::string& who = said_by_[std::size_t(*size == Size::sequence_ends ? Size::batch : *size)];
    if (who.empty()) who = "tensor '" + tensor + "'";
    return {known_.expect(extent, found), who};
  }
  Sizes sizes() const { return known_.sizes(); }

 private:
  static constexpr const char* kProgram = "the program";
  KnownSizes known_;
  std::array<std::string, kSizeCount> said_by_;
};

void check_shape(const CallTensor& tensor, const TensorLayout& layout, CallSizes& sizes,
                 Diagnostics& errors) {
  const auto complain = [&](std::string why) {
    errors.push_back(
        {code(tensor, "shape"),
         fmt::format("tensor '{}' has shape [{}]: {}", tensor.name, fmt::join(layout.shape, ", "), why),
         tensor.where, fmt::format("give it the shape {}", shape_text(tensor))});
  };
  if (layout.shape.size() != tensor.shape.size())
    return complain(
        fmt::format("{} dimensions, the program declares {}", layout.shape.size(), tensor.shape.size()));
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const std::int64_t found = layout.shape[axis];
    if (found < 0 || found > KnownSizes::kMost)
      return complain(fmt::format("{} at dimension {} is outside 0 .. {}", found, axis, KnownSizes::kMost));
    const auto [wanted, who] = sizes.expect(tensor.shape[axis], found, tensor.name);
    if (found != wanted)
      complain(fmt::format("{} is {} here, but {} according to {}", to_string(tensor.shape[axis]), found,
                           wanted, who));
  }
}

void check_strides(const CallTensor& tensor, const TensorLayout& layout, Diagnostics& errors) {
  const auto complain = [&](std::string why, std::string fix) {
    errors.push_back(
        {code(tensor, "stride"),
         fmt::format("tensor '{}' has strides [{}]: {}", tensor.name, fmt::join(layout.strides, ", "), why),
         tensor.where, std::move(fix)});
  };
  if (layout.strides.size() != layout.shape.size())
    return complain(fmt::format("{} strides for {} dimensions", layout.strides.size(), layout.shape.size()),
                    "give one stride per dimension");
  const bool is_empty = std::ranges::find(layout.shape, 0) != layout.shape.end();
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < layout.strides.size(); ++axis) {
    const std::int64_t stride = layout.strides[axis],
                       steps = std::max<std::int64_t>(layout.shape[axis] - 1, 0);
    if (stride < 0)
      return complain(fmt::format("{} at dimension {} is negative", stride, axis), "copy the tensor");
    if (tensor.is_output && stride == 0 && steps > 0 && !is_empty)
      return complain(fmt::format("0 at dimension {} writes elements over each other", axis),
                      "give it memory of its own");
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(steps, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
        last > std::numeric_limits<std::int64_t>::max() / 8)
      return complain("its last element lies past the end of memory", "correct the strides");
  }
  if (tensor.has_contiguous_axis && !layout.strides.empty() && layout.shape.back() > 1 &&
      layout.strides.back() != 1)
    complain(fmt::format("the last one must be 1, not {}", layout.strides.back()),
             "make the last axis contiguous");
}

Diagnostics check_bytes(const HostTensors& inputs) {
  Diagnostics errors;
  for (const auto& [tensor_name, tensor] : inputs) {
    const auto needed =
        std::size_t(tensor.layout.span_elements()) * std::size_t(size_in_bytes(tensor.layout.dtype));
    if (tensor.bytes.size() < needed)
      errors.push_back({"input.bytes",
                        fmt::format("tensor '{}' holds {} bytes, its shape and strides span {}", tensor_name,
                                    tensor.bytes.size(), needed),
                        {},
                        "supply all of its elements"});
  }
  return errors;
}

}  // namespace

Result<Sizes> check_tensors(const ProgramInfo& info, std::span<const CallTensor> declared,
                            const std::map<std::string, TensorLayout>& given) {
  Diagnostics errors;
  CallSizes sizes(info);
  std::set<std::string> known;
  for (const CallTensor& tensor : declared) {
    known.insert(tensor.name);
    const auto found = given.find(tensor.name);
    if (found == given.end()) {
      errors.push_back({code(tensor, "missing"),
                        fmt::format("program '{}' {} the tensor '{}'", info.name,
                                    tensor.is_output ? "writes" : "needs", tensor.name),
                        tensor.where,
                        fmt::format("supply '{}' with dtype {} and shape {}", tensor.name, name(tensor.dtype),
                                    shape_text(tensor))});
      continue;
    }
    const TensorLayout& layout = found->second;
    if (layout.dtype != tensor.dtype)
      errors.push_back({code(tensor, "dtype"),
                        fmt::format("tensor '{}' is {}, the program declares {}", tensor.name,
                                    name(layout.dtype), name(tensor.dtype)),
                        tensor.where, fmt::format("convert it to {}", name(tensor.dtype))});
    check_shape(tensor, layout, sizes, errors);
    check_strides(tensor, layout, errors);
  }
  for (const auto& [name, layout] : given)
    if (!known.contains(name))
      errors.push_back({"input.unknown",
                        fmt::format("program '{}' declares no tensor '{}'", info.name, name),
                        {},
                        "remove it, or declare it with param"});
  if (!errors.empty()) return errors;
  return sizes.sizes();
}

Result<Sizes> check_inputs(const Graph& graph, const std::map<std::string, TensorLayout>& inputs) {
  std::vector<CallTensor> declared = call_tensors(graph);
  std::erase_if(declared, [](const CallTensor& tensor) { return tensor.is_output; });
  return check_tensors(graph.info(), declared, inputs);
}

Result<Sizes> check_call(const Graph& graph, const std::map<std::string, TensorLayout>& tensors) {
  return check_tensors(graph.info(), call_tensors(graph), tensors);
}

Result<Sizes> check_inputs(const Graph& graph, const HostTensors& inputs) {
  std::map<std::string, TensorLayout> layouts;
  for (const auto& [tensor_name, tensor] : inputs) layouts.emplace(tensor_name, tensor.layout);
  auto sizes = check_inputs(graph, layouts);
  if (!sizes) return sizes;
  if (auto errors = check_bytes(inputs); !errors.empty()) return errors;
  return sizes;
}

}  // namespace attnfuse
