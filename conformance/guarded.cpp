#include "conformance/guarded.h"

#include <algorithm>

#include <fmt/format.h>

namespace attnfuse::conformance {
namespace {

constexpr std::size_t kGuardBytes = 256;  // keeps the alignment of the buffer's address
constexpr std::byte kGuard{0xff};         // NaN as f16, bf16 and f32: a read past the end shows up too

// The matrices of the last two dimensions.
std::vector<std::int64_t> matrices(const TensorLayout& layout) {
  ATTNFUSE_CHECK(layout.shape.size() > 2, "a tensor that lies in parts has matrices");
  return {layout.shape.begin(), layout.shape.end() - 2};
}

}  // namespace

Result<GuardedTensor> GuardedTensor::create(Device& device, std::string name, const HostTensor& tensor,
                                            std::int64_t offset, const TensorLayout* on_device) {
  GuardedTensor guarded;
  const auto element = std::size_t(size_in_bytes(tensor.layout.dtype));
  guarded.name_ = std::move(name);
  guarded.layout_ = tensor.layout;
  guarded.on_device_ = on_device != nullptr ? *on_device : tensor.layout;
  guarded.origin_ = kGuardBytes + std::size_t(offset) * element;
  guarded.host_bytes_ = tensor.bytes.size();
  const auto add_part = [&](std::size_t at, std::size_t host_begin, std::size_t bytes) {
    // What is ahead of an element that is not aligned belongs to the guard.
    const std::size_t ahead = at == 0 ? guarded.origin_ : kGuardBytes;
    Part part{guarded.origin_ + at - ahead, ahead, host_begin, {}};
    part.expected.assign(ahead + bytes + kGuardBytes, kGuard);
    std::copy_n(tensor.bytes.begin() + std::ptrdiff_t(host_begin), bytes,
                part.expected.begin() + std::ptrdiff_t(ahead));
    guarded.parts_.push_back(std::move(part));
  };
  if (on_device == nullptr) {
    add_part(0, 0, tensor.bytes.size());
  } else {
    const std::size_t rank = tensor.layout.shape.size();
    const TensorLayout matrix{tensor.layout.dtype,
                              {tensor.layout.shape.end() - 2, tensor.layout.shape.end()},
                              {tensor.layout.strides.end() - 2, tensor.layout.strides.end()}};
    for_each_index(matrices(tensor.layout), [&](std::span<const std::int64_t> index) {
      std::vector<std::int64_t> first(index.begin(), index.end());
      first.resize(rank, 0);
      add_part(std::size_t(on_device->offset(first)) * element,
               std::size_t(tensor.layout.offset(first)) * element,
               std::size_t(matrix.span_elements()) * element);
    });
  }
  std::size_t end = 2 * kGuardBytes;
  for (const Part& part : guarded.parts_) end = std::max(end, part.begin + part.expected.size());
  auto buffer = device.allocate(end);
  if (!buffer) return buffer.errors();
  guarded.buffer_ = *buffer;
  for (const Part& part : guarded.parts_)
    if (auto status = device.upload(*guarded.buffer_, part.begin, part.expected); !status)
      return status.errors();
  return guarded;
}

DeviceTensor GuardedTensor::device_tensor() const { return {on_device_, buffer_->address() + origin_}; }

std::vector<bool> GuardedTensor::may_change() const {
  std::vector<bool> changes(host_bytes_, false);
  const auto element = std::size_t(size_in_bytes(layout_.dtype));
  for_each_index(layout_.shape, [&](std::span<const std::int64_t> index) {
    std::fill_n(changes.begin() + layout_.offset(index) * std::ptrdiff_t(element), element, true);
  });
  return changes;
}

Result<HostTensor> GuardedTensor::read(Device& device, bool constant, std::string& damage) const {
  HostTensor tensor{layout_, std::vector<std::byte>(host_bytes_)};
  const std::vector<bool> changes = constant ? std::vector<bool>(host_bytes_, false) : may_change();
  for (const Part& part : parts_) {
    std::vector<std::byte> bytes(part.expected.size());
    if (auto status = device.download(*buffer_, part.begin, bytes); !status) return status.errors();
    const std::size_t inside = bytes.size() - part.ahead - kGuardBytes;
    std::copy_n(bytes.begin() + std::ptrdiff_t(part.ahead), inside,
                tensor.bytes.begin() + std::ptrdiff_t(part.host_begin));
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const bool is_guard = n < part.ahead || n >= part.ahead + inside;
      if (bytes[n] == part.expected[n] || (!is_guard && changes[part.host_begin + n - part.ahead])) continue;
      const auto where = std::int64_t(part.begin + n) - std::int64_t(origin_);
      damage += fmt::format("{}byte {} of {} ({} bytes) was overwritten", damage.empty() ? "" : "; ", where,
                            name_, host_bytes_);
      return tensor;
    }
  }
  return tensor;
}

}  // namespace attnfuse::conformance
