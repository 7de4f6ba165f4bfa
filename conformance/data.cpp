#include "conformance/data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "conformance/random.h"
#include "conformance/visibility.h"

namespace attnfuse::conformance {
namespace {

bool is_one_of(std::span<const char* const> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What lies farther apart is not kept whole on the host.
constexpr std::int64_t kMostHostElements = std::int64_t(1) << 31;

// Strides of a dense tensor whose dimensions are nested in `order`, outermost first; each extent may be
// enlarged by `extra` elements.
std::vector<std::int64_t> nested(const std::vector<std::int64_t>& shape,
                                 const std::vector<std::size_t>& order,
                                 const std::vector<std::int64_t>& extra) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t n = order.size(); n-- > 0;) {
    strides[order[n]] = stride;
    stride *= std::max<std::int64_t>(shape[order[n]] + extra[order[n]], 1);
  }
  return strides;
}

// What each layout does to q, k, v, o, lse ([b,h,s,d] or [b,h,s]; lse's last axis stays contiguous).
TensorLayout attention_tensor(Layout layout, DType dtype, const std::vector<std::int64_t>& shape) {
  const bool has_dim = shape.size() == 4;
  const std::vector<std::size_t> bhsd =
      has_dim ? std::vector<std::size_t>{0, 1, 2, 3} : std::vector<std::size_t>{0, 1, 2};
  std::vector<std::int64_t> none(shape.size(), 0);
  TensorLayout result{dtype, shape, nested(shape, bhsd, none)};
  switch (layout) {
    case Layout::bhsd:
    case Layout::offset:
    case Layout::broadcast:
    case Layout::mixed:
    case Layout::far:
      break;
    case Layout::bshd:
      if (has_dim) result.strides = nested(shape, {0, 2, 1, 3}, none);
      break;
    case Layout::sbhd:
      result.strides = has_dim ? nested(shape, {2, 0, 1, 3}, none) : nested(shape, {1, 0, 2}, none);
      break;
    case Layout::padded: {
      const std::int64_t aligned_gap = 16 / size_in_bytes(dtype);
      result.strides = nested(
          shape, bhsd,
          has_dim ? std::vector<std::int64_t>{0, 1, 3, aligned_gap} : std::vector<std::int64_t>{0, 1, 5});
      break;
    }
    case Layout::odd:
      result.strides = nested(
          shape, bhsd, has_dim ? std::vector<std::int64_t>{0, 0, 1, 1} : std::vector<std::int64_t>{0, 0, 3});
      break;
  }
  return result;
}

// Captured tensors have no contiguous axis in the strided layouts.
TensorLayout captured_tensor(Layout layout, DType dtype, const std::vector<std::int64_t>& shape) {
  std::vector<std::size_t> order;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) order.push_back(dim);
  std::vector<std::int64_t> extra(shape.size(), 0);
  switch (layout) {
    case Layout::bhsd:
    case Layout::offset:
    case Layout::broadcast:
    case Layout::bshd:
    case Layout::far:
      break;
    case Layout::sbhd:
    case Layout::mixed:
      std::ranges::reverse(order);
      break;
    case Layout::padded:
    case Layout::odd:
      std::ranges::fill(extra, 1);
      break;
  }
  TensorLayout result{dtype, shape, nested(shape, order, extra)};
  if (layout == Layout::padded)
    for (auto& stride : result.strides) stride *= 2;
  return result;
}

Layout layout_within_mixed(const std::string& name) {
  if (name == "q" || name == "k2") return Layout::bshd;
  if (name == "k" || name == "q2") return Layout::padded;
  if (name == "v") return Layout::odd;
  if (name == "o") return Layout::sbhd;
  return Layout::mixed;
}

// ---- numbers --------------------------------------------------------------------------------

double draw(Random& random, Data data, const std::string& name, std::int64_t channel) {
  const double normal = random.normal();
  const bool is_key = is_one_of(kKeyTensors, name), is_value = name == "v";
  switch (data) {
    case Data::normal:
    case Data::poison_masked:
    case Data::poison_seen:
    case Data::poison_others:
      return normal;
    case Data::large_logit:
      return is_value ? normal : 60 * normal;
    case Data::uniform:
      return is_key ? 0 : normal;
    case Data::big_value:
      return is_value ? 40000 + 2000 * normal : normal;
    case Data::real: {
      if (!is_key) return normal * (random.below(64) == 0 ? 8 : 1);
      // Each channel has its own mean and spread; some channels are outliers.
      const double mean = 6 * std::sin(1.7 * double(channel)), spread = 1 + double(channel % 4);
      return mean + spread * normal + (channel % 37 == 5 ? 20 : 0);
    }
  }
  return normal;
}

void fill_attention(HostTensor& tensor, Random& random, Data data, const std::string& name) {
  for_each_index(tensor.layout.shape, [&](std::span<const std::int64_t> index) {
    tensor.set(index, draw(random, data, name, index.back()));
  });
}

// Integers rise in runs along the last axis (document numbers, positions), unless the tensor's name starts
// with more: "offsets" part all keys, a "parent" comes before its child, a "list" selects blocks or nothing,
// and "shuffled" runs of 40 come back, far apart.
double integer(const std::string& name, std::int64_t first, std::int64_t along, std::int64_t last,
               std::int64_t keys, Random& random) {
  const auto is = [&](std::string_view kind) { return name.starts_with(kind); };
  if (is("offsets")) {
    const std::int64_t part = along * along * keys / std::max<std::int64_t>((last - 1) * (last - 1), 1);
    return double(part);
  }
  if (is("shuffled")) return double((along / 40 * 7 + first) % 3) * 1e9 - 1e9;
  if (is("parent")) return along % 6 == 0 ? -1 : double(random.below(along));
  if (is("list")) return double(random.below(6) - 1);
  const std::int64_t step = along * 3 / last;
  return double(step + first);
}

// Booleans are coin flips, but "padding" is false from two fifths on.
void fill_captured(HostTensor& tensor, Random& random, const std::string& name, std::int64_t keys) {
  const auto& shape = tensor.layout.shape;
  const std::int64_t last = shape.empty() ? 1 : shape.back();
  for_each_index(shape, [&](std::span<const std::int64_t> index) {
    const std::int64_t along = index.empty() ? 0 : index.back();
    switch (tensor.layout.dtype) {
      case DType::f16:
      case DType::bf16:
      case DType::f32:
        tensor.set(index, random.normal());
        break;
      case DType::i32:
        tensor.set(index, integer(name, index.size() > 1 ? index[0] : 0, along, last, keys, random));
        break;
      case DType::boolean:
        tensor.set(index,
                   name.starts_with("padding") ? double(5 * along < 2 * last) : double(random.below(2)));
        break;
    }
  });
}

// ---- poison ---------------------------------------------------------------------------------

void set_row(HostTensor& tensor, std::int64_t b, std::int64_t g, std::int64_t j, double value) {
  for (std::int64_t d = 0; d < tensor.layout.shape[3]; ++d) tensor.set(std::array{b, g, j, d}, value);
}

// Slots that no query of the group may see; which poison a slot gets rotates.
void poison_masked(const Graph& graph, const Sizes& sizes, Inputs& inputs) {
  const Visibility visible(graph, inputs.tensors, sizes);
  const double huge = graph.info().dtype == DType::f16 ? 65504 : 3e38;
  const double kinds[] = {kNan, kInfinity, -kInfinity, huge, -huge};
  visible.for_each_slot([&](std::int64_t b, std::int64_t g, std::int64_t j, Seen seen) {
    if (seen != Seen::by_none) return;
    for (const char* name : kKeyAndValueTensors)
      if (const auto found = inputs.tensors.find(name); found != inputs.tensors.end())
        set_row(found->second, b, g, j, kinds[(found->first == "v" ? j + 2 : j) % 5]);
  });
}

// One slot per key head with a NaN key, one with values that are not finite, both seen by some rows only.
void poison_seen(const Graph& graph, const Sizes& sizes, Inputs& inputs) {
  const Visibility visible(graph, inputs.tensors, sizes);
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> partly;
  visible.for_each_slot([&](std::int64_t b, std::int64_t g, std::int64_t j, Seen seen) {
    if (seen == Seen::by_some) partly[{b, g}].push_back(j);
  });
  auto& key = inputs.tensors.at("k");
  auto& value = inputs.tensors.at("v");
  for (const auto& [head, slots] : partly) {
    const auto [b, g] = head;
    if (g % 2 == 0) key.set(std::array{b, g, slots[slots.size() * 3 / 4], std::int64_t(0)}, kNan);
    const std::int64_t last = value.layout.shape[3] - 1;
    value.set(std::array{b, g, slots[slots.size() / 2], std::int64_t(0)}, kNan);
    value.set(std::array{b, g, slots[slots.size() / 3], last}, kInfinity);
  }
}

void poison_others(const Sizes& sizes, Inputs& inputs) {
  for (const char* name : kKeyAndValueTensors) {
    if (inputs.tensors.count(name) == 0) continue;
    HostTensor& tensor = inputs.tensors.at(name);
    for (std::int64_t b = 1; b < sizes.batch; b += 2)
      for (std::int64_t g = 0; g < tensor.layout.shape[1]; ++g)
        for (std::int64_t j = 0; j < sizes.skv; ++j) set_row(tensor, b, g, j, kNan);
  }
}

std::int64_t extent_value(const ProgramInfo& info, const Extent& extent, const Sizes& sizes) {
  return std::visit(overloaded{[&](std::int64_t number) { return number; },
                               [&](Size size) -> std::int64_t {
                                 switch (size) {
                                   case Size::batch:
                                     return sizes.batch;
                                   case Size::heads:
                                     return info.heads;
                                   case Size::kv_heads:
                                     return info.kv_heads;
                                   case Size::sq:
                                     return sizes.sq;
                                   case Size::skv:
                                     return sizes.skv;
                                   case Size::head_dim:
                                     return info.head_dim;
                                   case Size::v_head_dim:
                                     return info.v_head_dim;
                                   case Size::total_q:
                                   case Size::total_k:
                                   case Size::pages:
                                   case Size::max_pages:
                                   case Size::sequence_ends:
                                     break;  // no captured tensor has these
                                 }
                                 return 0;
                               }},
                    extent.value);
}

}  // namespace

std::vector<std::int64_t> shape_of(const Graph& graph, const TensorInfo& tensor, const Sizes& sizes) {
  std::vector<std::int64_t> shape;
  for (const Extent& extent : tensor.shape) shape.push_back(extent_value(graph.info(), extent, sizes));
  return shape;
}

Placement place(Layout layout, const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
  const bool is_key_or_value = is_one_of(kKeyAndValueTensors, name);
  const bool has_dim = is_key_or_value || is_one_of(kQueryTensors, name) || name == "o";
  const bool attention = has_dim || name == "lse" || name == "lse2" || name == "max_logit";
  if (attention && shape.size() < (has_dim ? 4U : 3U)) {
    std::vector<std::int64_t> with_batch = shape;
    with_batch.insert(with_batch.begin(), 1);
    Placement placement = place(layout, name, dtype, with_batch);
    placement.layout.shape.erase(placement.layout.shape.begin());
    placement.layout.strides.erase(placement.layout.strides.begin());
    return placement;
  }
  const Layout own = layout == Layout::mixed ? layout_within_mixed(name) : layout;
  Placement placement{attention ? attention_tensor(own, dtype, shape)
                                : captured_tensor(layout, dtype, shape)};
  if (layout == Layout::broadcast && is_key_or_value) placement.layout.strides[0] = 0;
  if (layout == Layout::far && (is_key_or_value || (!attention && shape.size() == 4))) {
    constexpr std::int64_t kPastInt32 = (std::int64_t(1) << 31) + 1024;
    placement.layout.strides[1] = kPastInt32;
    placement.layout.strides[0] = kPastInt32 * shape[1];
  }
  if (own == Layout::offset || own == Layout::odd) placement.offset = 1;
  return placement;
}

HostTensor poisoned_tensor(const TensorLayout& layout) {
  HostTensor tensor{layout, {}};
  tensor.bytes.assign(std::size_t(layout.span_elements()) * std::size_t(size_in_bytes(layout.dtype)),
                      std::byte{0xff});
  return tensor;
}

Inputs make_inputs(const Graph& graph, const Case& c) {
  const Sizes sizes{c.batch, c.sq, c.skv};
  const Layout layout = graph.info().storage.is_plain() ? c.layout : Layout::bhsd;
  Inputs inputs;
  for (const TensorInfo& tensor : graph.tensors()) {
    if (tensor.role == TensorRole::constant) continue;
    const auto shape = shape_of(graph, tensor, sizes);
    const Placement placement = place(layout, tensor.name, tensor.dtype, shape);
    const bool is_far = layout == Layout::far && placement.layout.span_elements() > kMostHostElements;
    if (is_far) inputs.far[tensor.name] = placement.layout;
    HostTensor host =
        poisoned_tensor(is_far ? TensorLayout::contiguous(tensor.dtype, shape) : placement.layout);
    Random random(hash_of(tensor.name.c_str(), c.seed));
    if (tensor.role == TensorRole::captured)
      fill_captured(host, random, tensor.name, sizes.skv);
    else
      fill_attention(host, random, c.data, tensor.name);
    inputs.offsets[tensor.name] = placement.offset;
    inputs.tensors.emplace(tensor.name, std::move(host));
  }
  if (c.data == Data::poison_masked) poison_masked(graph, sizes, inputs);
  if (c.data == Data::poison_seen) poison_seen(graph, sizes, inputs);
  if (c.data == Data::poison_others) poison_others(sizes, inputs);
  inputs.value_scale = largest_magnitude(inputs.tensors.at("v"));
  return inputs;
}

double largest_magnitude(const HostTensor& tensor) {
  double largest = 0;
  for_each_index(tensor.layout.shape, [&](std::span<const std::int64_t> index) {
    const double magnitude = std::abs(tensor.get(index));
    if (std::isfinite(magnitude)) largest = std::max(largest, magnitude);
  });
  return largest;
}

}  // namespace attnfuse::conformance
