#include "backends/hip/emulator/wave.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/detail/fcontext.hpp>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "backends/hip/emulator/fault.h"
#include "backends/hip/emulator/matrix.h"

namespace attnfuse::hip {
namespace {

namespace ctx = boost::context::detail;

// Lanes of a failed launch are abandoned where they stand, which only the plain contexts below
// boost::context::fiber allow: a fiber would resume them to unwind, but kernels have nothing to unwind.
enum class State : std::uint8_t { runnable, waiting, done };

struct Lane {
  ctx::fcontext_t context = nullptr;
  State state = State::done;
  unsigned thread = 0;
  Operation operation = Operation::workgroup_barrier;
  int immediate = 0;
  LaneOperands data;
};

// Stacks of all lanes of a workgroup, each below a guard page.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 256 * 1024, kGuard = 4096;

  explicit Stacks(std::size_t count) : size_(count * kBytes) {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ATTNFUSE_CHECK(base_ != MAP_FAILED, "no address space for the stacks of the lanes");
    for (std::size_t n = 0; n < count; ++n) mprotect(base_ + n * kBytes, kGuard, PROT_NONE);
  }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks() { munmap(base_, size_); }
  std::byte* top(std::size_t n) const { return base_ + (n + 1) * kBytes; }

 private:
  std::size_t size_;
  std::byte* base_;
};

Diagnostic failure(const char* code, std::string message) { return {code, std::move(message), {}, ""}; }

class Run {
 public:
  Run(const HostKernel& kernel, const Machine& machine, const Grid& grid, const void* params)
      : kernel_(kernel),
        machine_(machine),
        grid_(grid),
        params_(params),
        lanes_(std::size_t(grid.threads)),
        stacks_(lanes_.size()) {}

  Status workgroup(std::uint32_t x, std::uint32_t y, std::uint32_t z, WaveOrder order, std::uint64_t seed) {
    kernel_.state->workgroup[0] = x;
    kernel_.state->workgroup[1] = y;
    kernel_.state->workgroup[2] = z;
    kernel_.state->meet = &Run::meet;
    order_ = order;
    random_.seed(seed);
    std::memset(kernel_.shared.data(), 0xff, kernel_.shared.size());  // NaN in every type
    for (std::size_t n = 0; n < lanes_.size(); ++n) {
      lanes_[n] = {};
      lanes_[n].thread = unsigned(n);
      lanes_[n].state = State::runnable;
      lanes_[n].context = ctx::make_fcontext(stacks_.top(n), Stacks::kBytes - Stacks::kGuard, &Run::start);
    }
    current_run = this;
    if (sigsetjmp(escape_, 1) != 0)
      return failure("emulator.fault", fmt::format("workgroup {},{},{}, thread {} {}", x, y, z,
                                                   kernel_.state->thread, FaultGuard::text()));
    return schedule();
  }

  sigjmp_buf& escape() { return escape_; }

 private:
  static void start(ctx::transfer_t from) {
    current_run->scheduler_ = from.fctx;
    Lane& lane = *static_cast<Lane*>(from.data);
    current_run->kernel_.entry(current_run->params_);
    lane.state = State::done;
    ctx::jump_fcontext(current_run->scheduler_, nullptr);
  }

  static void meet(int operation, int immediate, const void* operands, void* result) {
    Run& run = *current_run;
    Lane& lane = run.lanes_[run.kernel_.state->thread];
    lane.operation = Operation(operation);
    lane.immediate = immediate;
    lane.data = {operands, result};
    lane.state = State::waiting;
    run.scheduler_ = ctx::jump_fcontext(run.scheduler_, nullptr).fctx;
  }

  std::span<Lane> wave(int index) {
    const int first = index * machine_.wave_size;
    return std::span(lanes_).subspan(std::size_t(first),
                                     std::size_t(std::min(machine_.wave_size, grid_.threads - first)));
  }

  // Waves in the order under test. Forward and reverse run one wave up to its barrier; random changes wave at
  // every step.
  Status schedule() {
    std::vector<int> order((lanes_.size() + std::size_t(machine_.wave_size) - 1) /
                           std::size_t(machine_.wave_size));
    std::iota(order.begin(), order.end(), 0);
    if (order_ == WaveOrder::reverse) std::reverse(order.begin(), order.end());
    for (;;) {
      if (order_ == WaveOrder::random) std::shuffle(order.begin(), order.end(), random_);
      bool moved = false;
      for (int index : order) {
        do {
          const Result<bool> step = advance(index);
          if (!step) return step.errors();
          if (!*step) break;
          moved = true;
        } while (order_ != WaveOrder::random);
      }
      if (moved) continue;
      bool any = false;  // every wave is done or at the workgroup's barrier
      for (Lane& lane : lanes_)
        if (lane.state == State::waiting) {
          lane.state = State::runnable;
          any = true;
        }
      if (!any) return Unit{};
    }
  }

  // One step of a wave: up to its next meeting, which takes place unless it is the workgroup's barrier.
  Result<bool> advance(int index) {
    const std::span<Lane> lanes = wave(index);
    if (lanes[0].state != State::runnable) return false;
    std::vector<std::size_t> order(lanes.size());
    std::iota(order.begin(), order.end(), 0U);
    if (order_ == WaveOrder::reverse) std::reverse(order.begin(), order.end());
    if (order_ == WaveOrder::random) std::shuffle(order.begin(), order.end(), random_);
    for (std::size_t n : order) {
      kernel_.state->thread = lanes[n].thread;
      lanes[n].context = ctx::jump_fcontext(lanes[n].context, &lanes[n]).fctx;
    }
    const Lane& first = lanes[0];
    for (const Lane& lane : lanes)
      if (lane.state != first.state || (lane.state == State::waiting && (lane.operation != first.operation ||
                                                                         lane.immediate != first.immediate)))
        return failure("emulator.diverged",
                       fmt::format("wave {}: lane {} is at {}, lane {} at {}", index, 0, place(first),
                                   lane.thread - first.thread, place(lane)));
    if (first.state == State::done || first.operation == Operation::workgroup_barrier) return true;
    if (const std::string wrong = perform(lanes); !wrong.empty())
      return failure("emulator.operand", fmt::format("wave {}: {}", index, wrong));
    for (Lane& lane : lanes) lane.state = State::runnable;
    return true;
  }

  static std::string place(const Lane& lane) {
    return lane.state == State::done ? "the end" : std::string(name(lane.operation));
  }

  std::string perform(std::span<Lane> lanes) const {
    if (is_matrix(lanes[0].operation)) {
      std::vector<LaneOperands> data;
      for (const Lane& lane : lanes) data.push_back(lane.data);
      return multiply(lanes[0].operation, data, machine_.flushes_denormals);
    }
    return lanes[0].operation == Operation::wave_barrier ? "" : exchange(lanes);
  }

  // Operations that read one 32-bit value of another lane.
  static std::string exchange(std::span<Lane> lanes) {
    const auto operand = [&](std::size_t lane, int n) {
      return static_cast<const std::uint32_t*>(lanes[lane].data.operands)[n];
    };
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const std::size_t half = lane / 32 * 32, in_half = lane % 32;
      const auto immediate = std::uint32_t(lanes[lane].immediate);
      std::size_t from = lane;
      int value_at = 0;
      switch (lanes[lane].operation) {
        case Operation::bpermute:
          from = operand(lane, 0) / 4 % lanes.size();
          value_at = 1;
          break;
        case Operation::swizzle:
          if ((immediate & 0x8000U) != 0) return "ds_swizzle outside its bit-mask mode";
          from = half + ((in_half & (immediate & 31U)) | (immediate >> 5 & 31U)) % 32;
          from = half + ((from - half) ^ (immediate >> 10 & 31U));
          break;
        case Operation::quad:
          if (immediate > 0xffU) return fmt::format("dpp control {:#x} is no quad permutation", immediate);
          from = lane / 4 * 4 + (immediate >> 2 * (lane % 4) & 3U);
          break;
        case Operation::permlane16x: {
          const std::size_t row = in_half % 16;
          const std::uint32_t select = operand(lane, row < 8 ? 1 : 2) >> 4 * (row % 8) & 15U;
          from = half + (in_half < 16 ? 16 : 0) + select;
          break;
        }
        case Operation::first_lane:
          from = 0;
          break;
        case Operation::workgroup_barrier:
        case Operation::wave_barrier:
        case Operation::mfma_32x32x8_f16:
        case Operation::mfma_32x32x8_bf16:
        case Operation::mfma_16x16x16_f16:
        case Operation::mfma_16x16x16_bf16:
        case Operation::wmma_f16:
        case Operation::wmma_bf16:
        case Operation::wmma_gfx12_f16:
        case Operation::wmma_gfx12_bf16:
          return "not an exchange";
      }
      if (from >= lanes.size()) return fmt::format("lane {} reads lane {} of {}", lane, from, lanes.size());
      *static_cast<std::uint32_t*>(lanes[lane].data.result) = operand(from, value_at);
    }
    return {};
  }

  static thread_local Run* current_run;

  const HostKernel& kernel_;
  const Machine& machine_;
  const Grid& grid_;
  const void* params_;
  std::vector<Lane> lanes_;
  Stacks stacks_;
  WaveOrder order_ = WaveOrder::forward;
  std::mt19937_64 random_;
  ctx::fcontext_t scheduler_ = nullptr;
  sigjmp_buf escape_;
};

thread_local Run* Run::current_run = nullptr;

WaveOrder order_of(WaveOrder order, std::uint64_t workgroup) {
  constexpr WaveOrder kTurns[] = {WaveOrder::forward, WaveOrder::reverse, WaveOrder::random};
  return order == WaveOrder::mixed ? kTurns[workgroup % 3] : order;
}

}  // namespace

Status run_grid(const HostKernel& kernel, const Machine& machine, const Grid& grid, WaveOrder order,
                std::uint64_t seed, const void* params) {
  Run run(kernel, machine, grid, params);
  const FaultGuard guard(run.escape());
  std::uint64_t number = 0;
  for (std::uint32_t z = 0; z < grid.workgroups[2]; ++z)
    for (std::uint32_t y = 0; y < grid.workgroups[1]; ++y)
      for (std::uint32_t x = 0; x < grid.workgroups[0]; ++x, ++number)
        if (Status status = run.workgroup(x, y, z, order_of(order, number), seed + number); !status)
          return status;
  return Unit{};
}

}  // namespace attnfuse::hip
