#include "backends/cuda/emulator/barriers.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/emulator/operation.h"

namespace attnfuse::cuda {
namespace {

using emulator::fail;

constexpr std::uint32_t kBytes = 8;
constexpr std::uint64_t kMark = 0xffba221e0ffba221;  // what a living barrier's memory holds
constexpr int kMostArrivals = (1 << 20) - 1, kMostBytes = (1 << 20) - 1;

std::string text(std::uint32_t address) { return "the barrier at " + offset_text(address); }

}  // namespace

void Barriers::init(int lane, const std::uint64_t* operands) {
  const std::string who = fmt::format("af_barrier_init of thread {}", lane);
  const std::uint32_t address = shared_.address(operands[0], kBytes, kBytes, who);
  const auto arrivals = std::int64_t(operands[1]);
  if (arrivals < 1 || arrivals > kMostArrivals)
    fail("emulator.barrier",
         fmt::format("{}: {} arrivals, allowed are 1 to {}", who, arrivals, kMostArrivals));
  if (barriers_.contains(address))
    fail("emulator.barrier", fmt::format("{}: {} is in use", who, text(address)));
  shared_.track();
  shared_.put(address, &kMark, kBytes);
  barriers_[address] = {int(arrivals), int(arrivals), 0, 0, lane, false, {}};
}

void Barriers::init_fence(int lane) {
  for (auto& [address, barrier] : barriers_)
    if (barrier.initializer == lane) barrier.is_fenced = true;
}

Barriers::Barrier& Barriers::find(std::uint32_t address, const std::string& who) {
  const auto found = barriers_.find(address);
  if (found == barriers_.end())
    fail("emulator.barrier", fmt::format("{}: {} was never initialised", who, text(address)));
  if (std::memcmp(shared_.at(address), &kMark, kBytes) != 0)
    fail("emulator.barrier", fmt::format("{}: {} was overwritten", who, text(address)));
  return found->second;
}

void Barriers::arrive(int lane, const std::uint64_t* operands, bool expects_bytes) {
  const std::string who = fmt::format("{} of thread {}", expects_bytes ? "af_expect" : "af_arrive", lane);
  const std::uint32_t address = shared_.address(operands[0], kBytes, kBytes, who);
  Barrier& barrier = find(address, who);
  const auto bytes = std::int64_t(operands[1]);
  if (bytes < 0 || barrier.bytes + bytes > kMostBytes)
    fail("emulator.barrier", fmt::format("{}: {} bytes, at most {} may be expected", who, bytes, kMostBytes));
  if (barrier.pending == 0)
    fail("emulator.barrier", fmt::format("{}: {} has all its {} arrivals and still expects {} bytes", who,
                                         text(address), barrier.arrivals, barrier.bytes));
  barrier.bytes += bytes;
  --barrier.pending;
  complete(address, barrier);
}

std::uint32_t Barriers::for_bytes(std::uint64_t pointer, const std::string& who) {
  const std::uint32_t address = shared_.address(pointer, kBytes, kBytes, who);
  if (const Barrier& barrier = find(address, who); !barrier.is_fenced)
    fail("emulator.proxy",
         fmt::format("{}: thread {} has initialised {} without a later af_barrier_init_fence", who,
                     barrier.initializer, text(address)));
  return address;
}

void Barriers::land(std::uint32_t address, std::uint32_t bytes) {
  Barrier& barrier = find(address, "a bulk load");
  barrier.bytes -= bytes;
  complete(address, barrier);
}

void Barriers::complete(std::uint32_t address, Barrier& barrier) {
  if (barrier.pending > 0 || barrier.bytes > 0) return;
  if (barrier.bytes < 0)
    fail("emulator.barrier",
         fmt::format("{} bytes more than expected have landed on {}", -barrier.bytes, text(address)));
  ++barrier.phase;
  barrier.pending = barrier.arrivals;
  for (const int lane : barrier.sleepers) group_.wake(lane);
  barrier.sleepers.clear();
}

bool Barriers::test(int lane, const std::uint64_t* operands) {
  const std::string who = fmt::format("af_wait of thread {}", lane);
  const std::uint32_t address = shared_.address(operands[0], kBytes, kBytes, who);
  Barrier& barrier = find(address, who);
  if (operands[1] > 1)
    fail("emulator.barrier", fmt::format("{}: parity {} is neither 0 nor 1", who, operands[1]));
  if ((barrier.phase & 1U) != operands[1]) return true;
  barrier.sleepers.push_back(lane);
  return false;
}

void Barriers::end() const {
  for (const auto& [address, barrier] : barriers_)
    if (barrier.bytes != 0)
      fail("emulator.barrier",
           fmt::format("the workgroup ends while {} expects {} more bytes", text(address), barrier.bytes));
}

std::string Barriers::place(int lane) const {
  const std::uint64_t* operands = words(group_.call(lane).operands);
  const std::uint32_t address = shared_.address(operands[0], kBytes, kBytes, "af_wait");
  const Barrier& barrier = barriers_.at(address);
  return fmt::format("waits for parity {} of {}, whose phase {} lacks {} of {} arrivals and {} bytes",
                     operands[1], text(address), barrier.phase, barrier.pending, barrier.arrivals,
                     barrier.bytes);
}

}  // namespace attnfuse::cuda
