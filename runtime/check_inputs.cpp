#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>

#include "ir/tile.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();

// A tensor that a call has to have.
struct Wanted {
  TensorInfo tensor;
  bool is_output = false;

  std::string code(const char* what) const {
    return fmt::format("{}.{}", is_output ? "output" : "input", what);
  }
  // q, k, v and o; of others every axis may be strided.
  bool has_contiguous_axis() const {
    return tensor.role != TensorRole::captured && tensor.role != TensorRole::constant;
  }
};

std::vector<Wanted> inputs_of(const Graph& graph) {
  std::vector<Wanted> wanted;
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role != TensorRole::constant) wanted.push_back({tensor});
  return wanted;
}

std::vector<Wanted> wanted_outputs(const Graph& graph) {
  const Extent b{Size::batch}, h{Size::heads}, s{Size::sq}, d{Size::v_head_dim};
  std::vector<Wanted> wanted;
  for (const OutputInfo& output : outputs_of(graph)) {
    std::vector<Extent> shape{b, h, s};
    if (output.has_dim) shape.push_back(d);
    const TensorRole role = output.has_dim ? TensorRole::query : TensorRole::captured;
    wanted.push_back({{output.name, output.dtype, role, std::move(shape), false, {}, {}}, true});
  }
  return wanted;
}

std::string extent_text(const Extent& extent) {
  return std::visit(overloaded{[](Size size) { return std::string(name(size)); },
                               [](std::int64_t n) { return std::to_string(n); }},
                    extent.value);
}

std::string shape_text(const TensorInfo& tensor) {
  std::vector<std::string> extents;
  for (const Extent& extent : tensor.shape) extents.push_back(extent_text(extent));
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

// The sizes of one call: compiled in, or read off the first tensor that has them.
class CallSizes {
 public:
  explicit CallSizes(const ProgramInfo& info) {
    set(Size::heads, info.heads, "the program");
    set(Size::kv_heads, info.kv_heads, "the program");
    set(Size::head_dim, info.head_dim, "the program");
    set(Size::v_head_dim, info.v_head_dim, "the program");
  }
  // The size `extent` has to have (learning it where nothing is known), and who says so.
  std::pair<std::int64_t, std::string> expect(const Extent& extent, std::int64_t found,
                                              const std::string& tensor) {
    if (const auto* number = std::get_if<std::int64_t>(&extent.value)) return {*number, "the program"};
    Known& known = known_[std::size_t(std::get<Size>(extent.value))];
    if (known.said_by.empty()) known = {found, "tensor '" + tensor + "'"};
    return {known.value, known.said_by};
  }
  std::int64_t value(Size size) const { return known_[std::size_t(size)].value; }

 private:
  struct Known {
    std::int64_t value = 0;
    std::string said_by;
  };
  void set(Size size, std::int64_t value, std::string who) {
    known_[std::size_t(size)] = {value, std::move(who)};
  }
  Known known_[7];
};

void check_shape(const Wanted& wanted_tensor, const TensorLayout& layout, CallSizes& sizes,
                 Diagnostics& errors) {
  const TensorInfo& tensor = wanted_tensor.tensor;
  const auto complain = [&](std::string why) {
    errors.push_back(
        {wanted_tensor.code("shape"),
         fmt::format("tensor '{}' has shape [{}]: {}", tensor.name, fmt::join(layout.shape, ", "), why),
         tensor.where, fmt::format("give it the shape {}", shape_text(tensor))});
  };
  if (layout.shape.size() != tensor.shape.size())
    return complain(
        fmt::format("{} dimensions, the program declares {}", layout.shape.size(), tensor.shape.size()));
  for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const std::int64_t found = layout.shape[axis];
    if (found < 0 || found > kMaxSize)
      return complain(fmt::format("{} at dimension {} is outside 0 .. {}", found, axis, kMaxSize));
    const auto [wanted, who] = sizes.expect(tensor.shape[axis], found, tensor.name);
    if (found != wanted)
      complain(fmt::format("{} is {} here, but {} according to {}", extent_text(tensor.shape[axis]), found,
                           wanted, who));
  }
}

void check_strides(const Wanted& wanted, const TensorLayout& layout, Diagnostics& errors) {
  const TensorInfo& tensor = wanted.tensor;
  const auto complain = [&](std::string why, std::string fix) {
    errors.push_back(
        {wanted.code("stride"),
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
    if (wanted.is_output && stride == 0 && steps > 0 && !is_empty)
      return complain(fmt::format("0 at dimension {} writes elements over each other", axis),
                      "give it memory of its own");
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(steps, stride, &reach) || __builtin_add_overflow(last, reach, &last) ||
        last > std::numeric_limits<std::int64_t>::max() / 8)
      return complain("its last element lies past the end of memory", "correct the strides");
  }
  if (wanted.has_contiguous_axis() && !layout.strides.empty() && layout.shape.back() > 1 &&
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

Result<Sizes> check_tensors(const Graph& graph, const std::vector<Wanted>& wanted,
                            const std::map<std::string, TensorLayout>& given) {
  Diagnostics errors;
  CallSizes sizes(graph.info());
  std::set<std::string> known;
  for (const Wanted& w : wanted) {
    const TensorInfo& tensor = w.tensor;
    known.insert(tensor.name);
    const auto found = given.find(tensor.name);
    if (found == given.end()) {
      errors.push_back({w.code("missing"),
                        fmt::format("program '{}' {} the tensor '{}'", graph.info().name,
                                    w.is_output ? "writes" : "needs", tensor.name),
                        tensor.where,
                        fmt::format("supply '{}' with dtype {} and shape {}", tensor.name, name(tensor.dtype),
                                    shape_text(tensor))});
      continue;
    }
    const TensorLayout& layout = found->second;
    if (layout.dtype != tensor.dtype)
      errors.push_back({w.code("dtype"),
                        fmt::format("tensor '{}' is {}, the program declares {}", tensor.name,
                                    name(layout.dtype), name(tensor.dtype)),
                        tensor.where, fmt::format("convert it to {}", name(tensor.dtype))});
    check_shape(w, layout, sizes, errors);
    check_strides(w, layout, errors);
  }
  for (const auto& [name, layout] : given)
    if (!known.contains(name))
      errors.push_back({"input.unknown",
                        fmt::format("program '{}' declares no tensor '{}'", graph.info().name, name),
                        {},
                        "remove it, or declare it with param"});
  if (!errors.empty()) return errors;
  return Sizes{sizes.value(Size::batch), sizes.value(Size::sq), sizes.value(Size::skv)};
}

}  // namespace

Result<Sizes> check_inputs(const Graph& graph, const std::map<std::string, TensorLayout>& inputs) {
  return check_tensors(graph, inputs_of(graph), inputs);
}

Result<Sizes> check_call(const Graph& graph, const std::map<std::string, TensorLayout>& tensors) {
  std::vector<Wanted> wanted = inputs_of(graph);
  for (Wanted& output : wanted_outputs(graph)) wanted.push_back(std::move(output));
  return check_tensors(graph, wanted, tensors);
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
