// Work counters of programs with roles: pairs of u32 in device memory that every launch finds zero and leaves
// zero. Launches that may run at the same time never get the same pair: launches of one stream share one, and
// every launch that is recorded into a graph gets a pair of its own, which is the graph's for good.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/device.h"

namespace attnfuse {

class Counters {
 public:
  static constexpr std::size_t kBlock = 4096;  // pairs that are allocated together

  static Result<Counters> create(std::shared_ptr<Device> device);

  // Allocates only outside of recordings, when half of a block is used up. Diagnostic "launch.counters": a
  // recording with more launches than pairs are left.
  Result<std::uint64_t> address_for(void* stream);

 private:
  explicit Counters(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::size_t left() const { return blocks_.size() * kBlock - used_; }
  Status grow();
  std::uint64_t next();

  std::shared_ptr<Device> device_;
  std::vector<std::shared_ptr<Buffer>> blocks_;
  std::size_t used_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> by_stream_;
};

}  // namespace attnfuse
