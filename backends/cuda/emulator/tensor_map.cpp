#include "backends/cuda/emulator/tensor_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/emulator/machine.h"

namespace attnfuse::cuda {
namespace {

constexpr std::uint64_t kMark = 0x6174746e66757365;
constexpr std::int64_t kRowBytes = 128;  // of the swizzle
constexpr std::int64_t kMostStride = std::int64_t(1) << 40, kMostExtent = std::int64_t(1) << 32;

// So that a map that a kernel changed or read half is noticed.
std::int32_t check_sum(const HostTensorMap& map) {
  HostTensorMap copy = map;
  copy.check = 0;
  std::uint32_t words[sizeof copy / 4], sum = 1;
  std::memcpy(words, &copy, sizeof copy);
  for (const std::uint32_t word : words) sum = sum * 16777619U + word;
  return std::int32_t(sum);
}

std::string mistake(const TensorMap& map) {
  const int element = size_in_bytes(map.type);
  if (map.address % 16 != 0) return fmt::format("address {:#x} is not a multiple of 16", map.address);
  for (const std::int64_t extent : map.extents)
    if (extent < 1 || extent > kMostExtent) return fmt::format("extent {} is not in 1 to 2^32", extent);
  for (const std::int64_t stride : map.strides_bytes)
    if (stride < 0 || stride % 16 != 0 || stride >= kMostStride)
      return fmt::format("stride of {} bytes is not a multiple of 16 below 2^40", stride);
  if (map.box_columns < 1 || map.box_columns * element != kRowBytes)
    return fmt::format("rows of a box are {} bytes, the swizzle wants {}", map.box_columns * element,
                       kRowBytes);
  if (map.box_rows < 1 || map.box_rows > 256)
    return fmt::format("a box has {} rows, allowed are 1 to 256", map.box_rows);
  return {};
}

}  // namespace

Result<EncodedTensorMap> encode_for_host(const TensorMap& map) {
  if (const std::string wrong = mistake(map); !wrong.empty())
    return Diagnostic{"device.failed", "no tensor map: " + wrong, {}, ""};
  HostTensorMap host;
  host.mark = kMark;
  host.address = map.address;
  std::ranges::copy(map.extents, host.extents);
  std::ranges::copy(map.strides_bytes, host.strides_bytes);
  host.box_columns = map.box_columns;
  host.box_rows = map.box_rows;
  host.element_bytes = size_in_bytes(map.type);
  host.check = check_sum(host);
  EncodedTensorMap encoded;
  std::memcpy(encoded.data(), &host, sizeof host);
  return encoded;
}

HostTensorMap read_tensor_map(std::uint64_t pointer, const std::string& who) {
  if (pointer % 64 != 0)
    emulator::fail("emulator.alignment",
                   fmt::format("{}: the tensor map at {:#x} is not aligned to 64 bytes", who, pointer));
  HostTensorMap map;
  std::memcpy(&map, reinterpret_cast<const void*>(pointer), sizeof map);
  if (map.mark != kMark || map.check != check_sum(map))
    emulator::fail("emulator.tensor-map", fmt::format("{}: no tensor map lies at {:#x}", who, pointer));
  return map;
}

}  // namespace attnfuse::cuda
