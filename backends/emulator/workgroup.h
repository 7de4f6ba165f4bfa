// Lanes on the CPU: one fiber each, run one at a time from call to call in the order of the policy, so that a
// missing barrier shows under some order. Which calls block whom is the machine's business.
#pragma once

#include <csetjmp>
#include <random>
#include <vector>

#include "backends/emulator/fiber.h"
#include "backends/emulator/lane.h"
#include "backends/emulator/machine.h"
#include "backends/emulator/policy.h"

namespace attnfuse::emulator {

class Workgroup {
 public:
  Workgroup(const HostKernel& kernel, int threads, const void* params, const Options& options);

  // Diagnostics: "emulator.fault", "emulator.deadlock" and those of the machine.
  Status run(Machine& machine, const std::uint32_t (&where)[3], std::uint64_t number);
  sigjmp_buf& escape() { return escape_; }

  // ---- for machines ---------------------------------------------------------------------------
  int threads() const { return int(lanes_.size()); }
  const Call& call(int lane) const { return lanes_[std::size_t(lane)].call; }
  bool is_done(int lane) const { return lanes_[std::size_t(lane)].status == LaneStatus::done; }
  void wake(int lane);
  std::span<std::byte> shared() const { return kernel_.shared; }
  Timing timing() const { return policy_.timing; }
  std::mt19937_64& random() { return random_; }
  std::uint64_t steps() const { return steps_; }

 private:
  enum class LaneStatus : std::uint8_t { runnable, waiting, done };
  struct Lane {
    Context context = nullptr;
    LaneStatus status = LaneStatus::done;
    Call call;
  };

  void start();
  void schedule(Machine& machine);
  int next();  // lane to run, -1 when none can
  int next_at_random();
  [[noreturn]] void deadlock(const Machine& machine) const;
  static void enter(Transfer from);
  static void on_call(int operation, int immediate, const void* operands, void* result);

  const HostKernel& kernel_;
  const void* params_;
  Options options_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> runnable_;  // one bit each, a word for a warp
  std::vector<int> favourites_;          // warps, the first one first; of random order, for a while
  std::uint64_t favoured_until_ = 0;
  Stacks stacks_;
  Policy policy_;
  std::uint64_t number_ = 0, steps_ = 0;
  std::mt19937_64 random_;
  Context scheduler_ = nullptr;
  sigjmp_buf escape_;
};

}  // namespace attnfuse::emulator
