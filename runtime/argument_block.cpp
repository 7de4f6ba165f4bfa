#include "runtime/argument_block.h"

#include <algorithm>
#include <cstring>

namespace attnfuse {
namespace {

constexpr int kVectorBytes = 16;
constexpr std::int64_t kMaxEngineExtent = std::int64_t(1) << 32, kMaxEngineStride = std::int64_t(1) << 40;
constexpr std::size_t kCachedMaps = 8;

std::int64_t run_time_size(const Sizes& sizes, Size size) {
  switch (size) {
    case Size::batch:
      return sizes.batch;
    case Size::sq:
      return sizes.sq;
    case Size::skv:
      return sizes.skv;
    case Size::total_q:
      return sizes.total_q;
    case Size::total_k:
      return sizes.total_k;
    case Size::heads:
    case Size::kv_heads:
    case Size::head_dim:
    case Size::v_head_dim:
    case Size::pages:
    case Size::max_pages:
    case Size::sequence_ends:
      break;
  }
  ATTNFUSE_CHECK(false, "a size that no kernel gets is no parameter");
}

// Are the address and every stride that is stepped over multiples of `bytes`?
bool is_aligned(const BoundTensor& tensor, int bytes) {
  const int element = size_in_bytes(tensor.dtype);
  bool aligned = tensor.address % std::uint64_t(bytes) == 0;
  for (std::size_t axis = 0; axis + 1 < std::size_t(tensor.rank); ++axis)  // one element takes no steps
    aligned = aligned && (tensor.shape[axis] <= 1 || tensor.strides[axis] % (bytes / element) == 0);
  return aligned;
}

bool suits_engine(const BoundTensor& tensor, int alignment) {
  const std::int64_t element = size_in_bytes(tensor.dtype);
  const auto rank = std::size_t(tensor.rank);
  bool suits = element == 2 && (rank == 3 || rank == 4) && is_aligned(tensor, alignment) &&
               tensor.shape[rank - 1] * element % alignment == 0;
  for (std::size_t axis = 0; axis < std::min<std::size_t>(rank, 4); ++axis) {
    const std::int64_t extent = tensor.shape[axis], stride = tensor.strides[axis];
    suits = suits && extent >= 1 && extent <= kMaxEngineExtent &&
            (extent == 1 || (stride > 0 && stride < kMaxEngineStride / element));
  }
  return suits;
}

// d, s, h, b from a tensor [b, h, s, d], or [h, s, d]: of one batch entry. The stride of a dimension of one
// element is never used, but checked: a row of the tensor passes.
TensorMap tensor_map(const BoundTensor& tensor, int box_columns, int box_rows) {
  TensorMap map;
  map.address = tensor.address;
  map.type = tensor.dtype;
  map.box_columns = box_columns;
  map.box_rows = box_rows;
  const std::int64_t element = size_in_bytes(tensor.dtype);
  const auto rank = std::size_t(tensor.rank);
  for (std::size_t n = 0; n < 4; ++n) map.extents[n] = n < rank ? tensor.shape[rank - 1 - n] : 1;
  for (std::size_t n = 0; n < 3; ++n)
    map.strides_bytes[n] =
        (map.extents[n + 1] == 1 ? map.extents[0] : tensor.strides[rank - 2 - n]) * element;
  return map;
}

}  // namespace

Access access_of(const BoundTensor& tensor, int engine_alignment) {
  if (engine_alignment > 0 && suits_engine(tensor, engine_alignment)) return Access::copy_engine;
  return is_aligned(tensor, kVectorBytes) ? Access::vector : Access::element;
}

ArgumentBlock::ArgumentBlock(const TileProgram& program, std::span<const std::string> tensors)
    : block_(std::size_t(program.param_bytes)) {
  for (const ParamField& field : program.params) {
    const auto found = std::ranges::find(tensors, field.tensor);
    const auto needs_tensor = field.kind != ParamField::Kind::size &&
                              field.kind != ParamField::Kind::counter &&
                              field.kind != ParamField::Kind::shares;
    ATTNFUSE_CHECK(!needs_tensor || found != tensors.end(), "no tensor is bound to '" + field.tensor + "'");
    ATTNFUSE_CHECK(field.offset >= 0 && field.offset + size_in_bytes(field.kind) <= program.param_bytes,
                   "the parameter " + field.name + " lies past its block");
    fields_.push_back({field.kind, field.offset, std::size_t(found - tensors.begin()), std::size_t(field.dim),
                       field.size, maps_.size()});
    if (field.kind == ParamField::Kind::tensor_map) maps_.push_back({field.box_columns, field.box_rows, {}});
    has_counter_ = has_counter_ || field.kind == ParamField::Kind::counter;
  }
}

Result<std::span<const std::byte>> ArgumentBlock::fill(std::span<const BoundTensor> tensors,
                                                       const Sizes& sizes, std::uint64_t counter,
                                                       Device& device) {
  for (const Field& field : fields_) {
    const auto put = [&](const auto& value) {
      std::memcpy(block_.data() + field.offset, &value, sizeof value);
    };
    switch (field.kind) {
      case ParamField::Kind::pointer:
        put(tensors[field.tensor].address);
        break;
      case ParamField::Kind::stride:
        put(tensors[field.tensor].strides[field.dim]);
        break;
      case ParamField::Kind::size:
        put(std::int32_t(run_time_size(sizes, field.size)));
        break;
      case ParamField::Kind::shares:
        put(std::int32_t(sizes.shares));
        break;
      case ParamField::Kind::tensor_map: {
        const auto map = encoded(maps_[field.map], tensors[field.tensor], device);
        if (!map) return map.errors();
        put(**map);
        break;
      }
      case ParamField::Kind::counter:
        put(counter);
        break;
    }
  }
  return std::span<const std::byte>(block_);
}

Result<const EncodedTensorMap*> ArgumentBlock::encoded(MapCache& cache, const BoundTensor& tensor,
                                                       Device& device) {
  const TensorMap map = tensor_map(tensor, cache.box_columns, cache.box_rows);
  for (const MapCache::Entry& entry : cache.entries)
    if (entry.map == map) return &entry.encoded;
  const auto made = device.encode(map);
  if (!made) return made.errors();
  if (cache.entries.size() < kCachedMaps) {
    cache.entries.reserve(kCachedMaps);
    cache.entries.push_back({map, *made});
    return &cache.entries.back().encoded;
  }
  MapCache::Entry& oldest = cache.entries[cache.next];
  cache.next = (cache.next + 1) % kCachedMaps;
  oldest = {map, *made};
  return &oldest.encoded;
}

}  // namespace attnfuse
