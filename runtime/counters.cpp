#include "runtime/counters.h"

#include <fmt/format.h>

namespace attnfuse {
namespace {

constexpr std::size_t kPairBytes = 8;

}  // namespace

Result<Counters> Counters::create(std::shared_ptr<Device> device) {
  Counters counters(std::move(device));
  if (auto status = counters.grow(); !status) return status.errors();
  return counters;
}

Result<std::uint64_t> Counters::address_for(void* stream) {
  const auto state = device_->state(stream);
  if (!state) return state.errors();
  if (state->capturing) {
    if (left() > 0) return next();
    return Diagnostic{"launch.counters",
                      fmt::format("all {} work counters belong to launches recorded before", used_),
                      {},
                      "launch once outside of a recording, which makes room for more"};
  }
  if (left() < kBlock / 2)
    if (auto status = grow(); !status) return status.errors();
  const auto [place, is_new] = by_stream_.try_emplace(state->id, 0);
  if (is_new) place->second = next();
  return place->second;
}

Status Counters::grow() {
  auto block = device_->allocate(kBlock * kPairBytes);
  if (!block) return block.errors();
  const std::vector<std::byte> zeros(kBlock * kPairBytes);
  if (auto status = device_->upload(**block, 0, zeros); !status) return status;
  blocks_.push_back(std::move(block).value());
  return Unit{};
}

std::uint64_t Counters::next() {
  const std::uint64_t address = blocks_[used_ / kBlock]->address() + used_ % kBlock * kPairBytes;
  ++used_;
  return address;
}

}  // namespace attnfuse
