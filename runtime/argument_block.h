// The argument block of a tile program. Names are resolved once: filling the block for a launch copies
// numbers, allocates nothing, and describes a tensor to the copy engine only when it is not one of the last
// few.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/tile.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace attnfuse {

// A tensor of a call, in device memory. Strides in elements; the first `rank` entries count.
struct BoundTensor {
  std::uint64_t address = 0;
  DType dtype = DType::f32;
  int rank = 0;
  std::array<std::int64_t, kMaxRank> shape{}, strides{};
};

// What the addresses and strides of a call's q, k, v and o allow a kernel.
enum class Access : std::uint8_t {
  element,      // one element at a time
  vector,       // 16 bytes at a time
  copy_engine,  // boxes, moved by a copy engine
};
// `engine_alignment`: bytes, of addresses and strides that the copy engine takes; 0 = there is none.
Access access_of(const BoundTensor& tensor, int engine_alignment);

class ArgumentBlock {
 public:
  // `tensors`: the names of a call's tensors, in the order in which fill() gets them.
  ArgumentBlock(const TileProgram& program, std::span<const std::string> tensors);

  bool has_counter() const { return has_counter_; }
  // The block; valid until the next fill. `counter`: see ParamField::Kind::counter. Diagnostics: those of
  // Device::encode.
  Result<std::span<const std::byte>> fill(std::span<const BoundTensor> tensors, const Sizes& sizes,
                                          std::uint64_t counter, Device& device);

 private:
  struct Field {
    ParamField::Kind kind;
    int offset;
    std::size_t tensor;  // pointer, stride, tensor_map
    std::size_t dim;     // stride
    Size size;           // size
    std::size_t map;     // tensor_map: into maps_
  };
  // The encodings of the last few tensors that a field stood for.
  struct MapCache {
    struct Entry {
      TensorMap map;
      EncodedTensorMap encoded;
    };
    int box_columns, box_rows;
    std::vector<Entry> entries;
    std::size_t next = 0;
  };
  Result<const EncodedTensorMap*> encoded(MapCache& cache, const BoundTensor& tensor, Device& device);

  std::vector<Field> fields_;
  std::vector<MapCache> maps_;
  std::vector<std::byte> block_;
  bool has_counter_ = false;
};

}  // namespace attnfuse
