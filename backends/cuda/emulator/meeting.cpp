#include "backends/cuda/emulator/meeting.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/warp.h"

namespace attnfuse::cuda {

using emulator::fail;

void Meetings::begin() {
  at_threads_.clear();
  ended_ = 0;
  named_.fill({});
}

void Meetings::sync_threads(int lane) {
  at_threads_.push_back(lane);
  open_threads();
}

void Meetings::ended() {
  ++ended_;
  open_threads();
}

void Meetings::open_threads() {
  if (at_threads_.empty() || int(at_threads_.size()) + ended_ < group_.threads()) return;
  for (const int lane : at_threads_) group_.wake(lane);
  at_threads_.clear();
}

void Meetings::named(int lane, const std::uint64_t* operands, bool waits) {
  const auto id = std::int64_t(operands[0]), threads = std::int64_t(operands[1]);
  const std::string who = fmt::format("{} of thread {}", waits ? "af_named_sync" : "af_named_arrive", lane);
  if (id < 1 || id >= kNamed)
    fail("emulator.barrier",
         fmt::format("{}: there is no named barrier {}, use 1 to {}", who, id, kNamed - 1));
  if (threads < kWarp || threads > group_.threads() || threads % kWarp != 0)
    fail("emulator.barrier",
         fmt::format("{}: {} threads at barrier {} are not whole warps of the {} there are", who, threads, id,
                     group_.threads()));
  Named& barrier = named_[std::size_t(id)];
  if (!barrier.came.empty() && barrier.threads != threads)
    fail("emulator.barrier", fmt::format("{}: barrier {} of {} threads, but thread {} says {}", who, id,
                                         threads, barrier.came[0], barrier.threads));
  if (std::ranges::find(barrier.came, lane) != barrier.came.end())
    fail("emulator.barrier",
         fmt::format("{}: it comes twice to barrier {} before the {} threads have met", who, id, threads));
  barrier.threads = int(threads);
  barrier.came.push_back(lane);
  if (waits)
    barrier.waiting.push_back(lane);
  else
    group_.wake(lane);
  if (int(barrier.came.size()) == barrier.threads) open(int(id), barrier);
}

// Warps come whole: the hardware counts 32 for each.
void Meetings::open(int id, Named& barrier) {
  std::map<int, int> by_warp;
  for (const int lane : barrier.came) ++by_warp[lane / kWarp];
  for (const auto& [warp, lanes] : by_warp)
    if (lanes != kWarp)
      fail("emulator.diverged",
           fmt::format("{} threads of warp {} come to named barrier {} without the others", lanes, warp, id));
  for (const int lane : barrier.waiting) group_.wake(lane);
  barrier = {};
}

std::string Meetings::place_in_threads() const {
  return fmt::format("waits at __syncthreads ({} of {} threads are there)", at_threads_.size(),
                     group_.threads() - ended_);
}

std::string Meetings::place_in_named(int lane) const {
  const auto id = std::size_t(words(group_.call(lane).operands)[0]);
  return fmt::format("waits at named barrier {} ({} of {} threads have come)", id, named_[id].came.size(),
                     named_[id].threads);
}

}  // namespace attnfuse::cuda
