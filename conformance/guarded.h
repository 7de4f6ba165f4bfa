// A tensor in device memory between guard bytes; every byte near it that is not an element is known.
#pragma once

#include "conformance/data.h"
#include "runtime/execute.h"

namespace attnfuse::conformance {

class GuardedTensor {
 public:
  // Uploads the tensor's bytes between guards. With another layout than the host's, which has the same last
  // two dimensions, every matrix of these lies in a place of its own, and what is far from all of them is
  // neither written nor looked at: memory that the machine may never have to find.
  static Result<GuardedTensor> create(Device& device, std::string name, const HostTensor& tensor,
                                      std::int64_t offset, const TensorLayout* on_device = nullptr);

  DeviceTensor device_tensor() const;

  // The tensor as it is in device memory; `damage` gets a line when a byte outside the elements changed, or
  // any byte of a tensor that is `constant`.
  Result<HostTensor> read(Device& device, bool constant, std::string& damage) const;

 private:
  // Bytes of the host's tensor, with guards around them, at some place in the buffer.
  struct Part {
    std::size_t begin = 0;            // in the buffer
    std::size_t ahead = 0;            // guard bytes before the tensor's
    std::size_t host_begin = 0;       // of the tensor's
    std::vector<std::byte> expected;  // as uploaded, guards included
  };

  std::vector<bool> may_change() const;  // of the host's bytes

  std::string name_;
  TensorLayout layout_, on_device_;
  std::size_t origin_ = 0;      // of the tensor's first element in the buffer
  std::size_t host_bytes_ = 0;  // of the host's tensor
  std::vector<Part> parts_;
  std::shared_ptr<Buffer> buffer_;
};

}  // namespace attnfuse::conformance
