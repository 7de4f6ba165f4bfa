// A tensor in device memory between guard bytes; every byte that is not an element is known.
#pragma once

#include "conformance/data.h"
#include "runtime/execute.h"

namespace attnfuse::conformance {

class GuardedTensor {
 public:
  // Uploads the tensor's bytes between guards.
  static Result<GuardedTensor> create(Device& device, std::string name, const HostTensor& tensor,
                                      std::int64_t offset);

  DeviceTensor device_tensor() const;

  // The tensor as it is in device memory; `damage` gets a line when a byte outside the elements changed, or
  // any byte of a tensor that is `constant`.
  Result<HostTensor> read(Device& device, bool constant, std::string& damage) const;

 private:
  std::string name_;
  TensorLayout layout_;
  std::size_t begin_ = 0;            // of the tensor's bytes in the buffer
  std::vector<std::byte> expected_;  // the whole buffer as uploaded
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace attnfuse::conformance
