#include "backends/cuda/emulator/copies.h"

#include <fmt/format.h>

#include "backends/emulator/fault.h"
#include "backends/emulator/machine.h"

namespace attnfuse::cuda {

using emulator::fail;

void Copies::copy(int lane, const std::uint64_t* operands) {
  constexpr std::uint32_t kBytes = 16;
  const std::string who = fmt::format("cp.async of thread {}", lane);
  const std::uint32_t to = shared_.address(operands[0], kBytes, kBytes, who);
  const std::uint64_t from = operands[1];
  const bool inside = operands[2] != 0;
  if (inside && from % kBytes != 0)
    fail("emulator.alignment",
         fmt::format("{}: global address {:#x} is not a multiple of {}", who, from, kBytes));
  if (inside && !emulator::GuardedMemory::is_allocated(from, kBytes))
    fail("emulator.fault", fmt::format("{} reads {:#x}, which is in no buffer", who, from));
  const Granules granules = {to / SharedMemory::kGranule};
  shared_.begin_write(granules, {"cp.async", "thread", lane}, true);
  threads_[std::size_t(lane)].open.push_back(background_.add([this, granules, to, from, inside] {
    const std::byte zeros[kBytes] = {};
    shared_.put(to, inside ? reinterpret_cast<const std::byte*>(from) : zeros, kBytes);
    shared_.end_write(granules);
  }));
}

void Copies::commit(int lane) {
  Thread& thread = threads_[std::size_t(lane)];
  thread.committed.insert(thread.committed.end(), thread.open.begin(), thread.open.end());
  thread.open.clear();
}

void Copies::wait(int lane) {
  Thread& thread = threads_[std::size_t(lane)];
  for (const Background::Ticket ticket : thread.committed) background_.finish(ticket);
  thread.committed.clear();
}

void Copies::ended(int lane) const {
  const Thread& thread = threads_[std::size_t(lane)];
  if (!thread.open.empty() || !thread.committed.empty())
    fail("emulator.unfinished", fmt::format("thread {} ends without waiting for its cp.async", lane));
}

}  // namespace attnfuse::cuda
