#include "backends/cuda/emulator/registers.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/emulator/warp.h"

namespace attnfuse::cuda {
namespace {

using emulator::fail;

constexpr int kFile = 64 * 1024, kUnit = 8, kLeast = 24, kMost = 256, kMostAtLaunch = 255;

}  // namespace

// A kernel that says one workgroup per multiprocessor gets an equal share for every thread.
void Registers::begin() {
  const int share = std::min(kFile / group_.threads(), kMostAtLaunch) / kUnit * kUnit;
  per_thread_.assign(std::size_t((group_.threads() + kWarp - 1) / kWarp), share);
  asked_.assign(per_thread_.size(), {});
  free_ = 0;
  waiting_.clear();
}

void Registers::check(int warp, int registers, const char* what) {
  if (registers < kLeast || registers > kMost || registers % kUnit != 0)
    fail("emulator.registers", fmt::format("{}: {} registers, allowed are {} to {} in steps of {}", what,
                                           registers, kLeast, kMost, kUnit));
  const int now = per_thread_[std::size_t(warp)];
  const bool is_raise = std::string_view(what) == "af_registers_inc";
  if (is_raise ? registers < now : registers > now)
    fail("emulator.registers",
         fmt::format("{} of warp {}: it has {} registers and asks for {}", what, warp, now, registers));
  asked_[std::size_t(warp)].push_back(registers);
}

void Registers::end() const {
  constexpr std::size_t kGroup = 4;
  for (std::size_t warp = 0; warp < asked_.size(); ++warp)
    if (asked_[warp] != asked_[warp / kGroup * kGroup])
      fail("emulator.registers", fmt::format("warps {} and {} of one warpgroup ask for different registers",
                                             warp / kGroup * kGroup, warp));
}

std::vector<int> Registers::lower(int warp, int registers) {
  check(warp, registers, "af_registers_dec");
  free_ += per_thread_[std::size_t(warp)] - registers;
  per_thread_[std::size_t(warp)] = registers;
  std::vector<int> awake = grant();
  awake.push_back(warp);
  return awake;
}

std::vector<int> Registers::raise(int warp, int registers) {
  check(warp, registers, "af_registers_inc");
  waiting_.push_back({warp, registers});
  return grant();
}

std::vector<int> Registers::grant() {
  std::vector<int> awake;
  std::erase_if(waiting_, [&](const Request& request) {
    int& now = per_thread_[std::size_t(request.warp)];
    if (request.registers - now > free_) return false;
    free_ -= request.registers - now;
    now = request.registers;
    awake.push_back(request.warp);
    return true;
  });
  return awake;
}

std::string Registers::place(int lane) const {
  const int warp = lane / kWarp;
  for (const Request& request : waiting_)
    if (request.warp == warp)
      return fmt::format("waits for {} registers, of which it has {} and {} are free", request.registers,
                         per_thread_[std::size_t(warp)], free_);
  return {};
}

}  // namespace attnfuse::cuda
