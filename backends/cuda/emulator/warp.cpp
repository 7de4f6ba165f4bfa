#include "backends/cuda/emulator/warp.h"

#include <fmt/format.h>

#include <algorithm>

namespace attnfuse::cuda {
namespace {

std::string place_of(const emulator::Workgroup& group, int lane) {
  if (group.is_done(lane)) return "has ended";
  const emulator::Call& call = group.call(lane);
  return fmt::format("is at {}{}", name(Operation(call.operation)),
                     call.immediate != 0 ? fmt::format(" {}", call.immediate) : "");
}

}  // namespace

void Warps::begin() { waiting_.assign(std::size_t((group_.threads() + kWarp - 1) / kWarp), {}); }

bool Warps::arrive(int lane) {
  const int warp = lane / kWarp, first = warp * kWarp;
  std::vector<int>& there = waiting_[std::size_t(warp)];
  for (int other = first; there.empty() && other < first + kWarp; ++other)
    if (other >= group_.threads() || group_.is_done(other)) diverged(lane, other);
  if (!there.empty()) {
    const emulator::Call &here = group_.call(lane), &before = group_.call(there[0]);
    if (here.operation != before.operation || here.immediate != before.immediate) diverged(there[0], lane);
  }
  there.push_back(lane);
  if (there.size() < std::size_t(kWarp)) return false;
  there.clear();
  return true;
}

void Warps::ended(int lane) const {
  const std::vector<int>& there = waiting_[std::size_t(lane / kWarp)];
  if (!there.empty()) diverged(there[0], lane);
}

void Warps::diverged(int lane, int other) const {
  if (other >= group_.threads())
    emulator::fail("emulator.diverged", fmt::format("thread {} {} in a warp of {} threads", lane,
                                                    place_of(group_, lane), group_.threads() % kWarp));
  emulator::fail("emulator.diverged", fmt::format("warp {}: thread {} {}, thread {} {}", lane / kWarp, lane,
                                                  place_of(group_, lane), other, place_of(group_, other)));
}

void Warps::resume(int warp) {
  for (int lane = warp * kWarp; lane < (warp + 1) * kWarp; ++lane) group_.wake(lane);
}

std::string Warps::place(int lane) const {
  return fmt::format("waits at {} for its warp ({} of {} threads are there)",
                     name(Operation(group_.call(lane).operation)), waiting_[std::size_t(lane / kWarp)].size(),
                     kWarp);
}

void exchange(emulator::Workgroup& group, int first) {
  const auto operation = Operation(group.call(first).operation);
  const auto value = [&](int lane, int n) { return words(group.call(first + lane).operands)[n]; };
  const auto set = [&](int lane, std::uint32_t result) {
    *static_cast<std::uint32_t*>(group.call(first + lane).result) = result;
  };
  if (operation == Operation::ballot) {
    std::uint32_t bits = 0;
    for (int lane = 0; lane < kWarp; ++lane) bits |= std::uint32_t(value(lane, 0) != 0) << lane;
    for (int lane = 0; lane < kWarp; ++lane) set(lane, bits);
    return;
  }
  for (int lane = 0; lane < kWarp; ++lane) {
    const int by = int(value(lane, 1));
    int from = lane;
    switch (ShuffleKind(group.call(first).immediate)) {
      case ShuffleKind::index:
        from = by & (kWarp - 1);
        break;
      case ShuffleKind::exclusive_or:
        from = lane ^ by;
        break;
      case ShuffleKind::up:
        from = lane - by;
        break;
      case ShuffleKind::down:
        from = lane + by;
        break;
    }
    set(lane, std::uint32_t(value(from < 0 || from >= kWarp ? lane : from, 0)));
  }
}

}  // namespace attnfuse::cuda
