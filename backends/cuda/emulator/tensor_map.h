// Tensor maps of the emulated copy engine: how its 128 bytes describe a tensor. On the GPU they are opaque.
#pragma once

#include <string>

#include "runtime/device.h"

namespace attnfuse::cuda {

// What the driver refuses is refused: "device.failed".
Result<EncodedTensorMap> encode_for_host(const TensorMap& map);

// The map at a kernel's pointer. "emulator.tensor-map", "emulator.alignment".
struct HostTensorMap {
  std::uint64_t mark = 0;
  std::uint64_t address = 0;
  std::int64_t extents[4] = {};        // d, s, h, b
  std::int64_t strides_bytes[3] = {};  // s, h, b
  std::int32_t box_columns = 0, box_rows = 0, element_bytes = 0, check = 0;
  std::uint64_t unused[5] = {};
};
static_assert(sizeof(HostTensorMap) == sizeof(EncodedTensorMap));
HostTensorMap read_tensor_map(std::uint64_t pointer, const std::string& who);

}  // namespace attnfuse::cuda
