#include "conformance/guarded.h"

#include <algorithm>

#include <fmt/format.h>

namespace attnfuse::conformance {
namespace {

constexpr std::size_t kGuardBytes = 256;  // keeps the alignment of the buffer's address
constexpr std::byte kGuard{0xff};         // NaN as f16, bf16 and f32: a read past the end shows up too

}  // namespace

Result<GuardedTensor> GuardedTensor::create(Device& device, std::string name, const HostTensor& tensor,
                                            std::int64_t offset) {
  GuardedTensor guarded;
  guarded.name_ = std::move(name);
  guarded.layout_ = tensor.layout;
  guarded.begin_ = kGuardBytes + std::size_t(offset) * std::size_t(size_in_bytes(tensor.layout.dtype));
  guarded.expected_.assign(guarded.begin_ + tensor.bytes.size() + kGuardBytes, kGuard);
  std::ranges::copy(tensor.bytes, guarded.expected_.begin() + std::ptrdiff_t(guarded.begin_));
  auto buffer = device.allocate(guarded.expected_.size());
  if (!buffer) return buffer.errors();
  guarded.buffer_ = *buffer;
  if (auto status = device.upload(*guarded.buffer_, 0, guarded.expected_); !status) return status.errors();
  return guarded;
}

DeviceTensor GuardedTensor::device_tensor() const { return {layout_, buffer_->address() + begin_}; }

Result<HostTensor> GuardedTensor::read(Device& device, bool constant, std::string& damage) const {
  std::vector<std::byte> bytes(expected_.size());
  if (auto status = device.download(*buffer_, 0, bytes); !status) return status.errors();
  const auto element = std::size_t(size_in_bytes(layout_.dtype));
  const std::size_t tensor_bytes = std::size_t(layout_.span_elements()) * element;
  const auto tensor_begin = bytes.begin() + std::ptrdiff_t(begin_);
  HostTensor tensor{layout_, {tensor_begin, tensor_begin + std::ptrdiff_t(tensor_bytes)}};

  std::vector<bool> may_change(bytes.size(), false);
  if (!constant)
    for_each_index(layout_.shape, [&](std::span<const std::int64_t> index) {
      const std::size_t at = begin_ + std::size_t(layout_.offset(index)) * element;
      std::fill_n(may_change.begin() + std::ptrdiff_t(at), element, true);
    });
  for (std::size_t n = 0; n < bytes.size(); ++n)
    if (bytes[n] != expected_[n] && !may_change[n]) {
      const auto where = std::int64_t(n) - std::int64_t(begin_);
      damage += fmt::format("{}byte {} of {} ({} bytes) was overwritten", damage.empty() ? "" : "; ", where,
                            name_, tensor_bytes);
      break;
    }
  return tensor;
}

}  // namespace attnfuse::conformance
