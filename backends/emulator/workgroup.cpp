#include "backends/emulator/workgroup.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "backends/emulator/fault.h"

namespace attnfuse::emulator {
namespace {

constexpr std::uint64_t kStepsPerTurn = 8192;

thread_local Workgroup* current = nullptr;

}  // namespace

Stacks::Stacks(std::size_t count) : size_(count * kBytes) {
  base_ = static_cast<std::byte*>(
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ATTNFUSE_CHECK(base_ != MAP_FAILED, "no address space for the stacks of the lanes");
  for (std::size_t n = 0; n < count; ++n) mprotect(base_ + n * kBytes, kGuard, PROT_NONE);
}
Stacks::~Stacks() { munmap(base_, size_); }

Workgroup::Workgroup(const HostKernel& kernel, int threads, const void* params, const Options& options)
    : kernel_(kernel),
      params_(params),
      options_(options),
      lanes_(std::size_t(threads)),
      runnable_((lanes_.size() + 31) / 32),
      stacks_(lanes_.size()) {}

Status Workgroup::run(Machine& machine, const std::uint32_t (&where)[3], std::uint64_t number) {
  std::ranges::copy(where, kernel_.state->workgroup);
  kernel_.state->threads = unsigned(threads());
  kernel_.state->call = &Workgroup::on_call;
  number_ = number;
  random_.seed(options_.seed + number);
  current = this;
  const auto from = fmt::format("workgroup {},{},{}", where[0], where[1], where[2]);
  if (sigsetjmp(escape_, 1) != 0)
    return Diagnostic{"emulator.fault",
                      fmt::format("{}, thread {} {}", from, kernel_.state->thread, FaultGuard::text()),
                      {},
                      ""};
  try {
    start();
    machine.begin();
    schedule(machine);
    machine.end();
  } catch (const Failure& failure) {
    Diagnostic located = failure.diagnostic;
    located.message = from + ": " + located.message;
    return located;
  }
  return Unit{};
}

void Workgroup::start() {
  for (std::size_t n = 0; n < lanes_.size(); ++n) {
    lanes_[n] = {stacks_.make(n, &Workgroup::enter), LaneStatus::waiting, {}};
    wake(int(n));
  }
}

void Workgroup::wake(int lane) {
  lanes_[std::size_t(lane)].status = LaneStatus::runnable;
  runnable_[std::size_t(lane) / 32] |= std::uint32_t(1) << lane % 32;
}

void Workgroup::enter(Transfer from) {
  current->scheduler_ = from.fctx;
  Lane& lane = *static_cast<Lane*>(from.data);
  current->kernel_.entry(current->params_);
  lane.status = LaneStatus::done;
  boost::context::detail::jump_fcontext(current->scheduler_, nullptr);
}

void Workgroup::on_call(int operation, int immediate, const void* operands, void* result) {
  Workgroup& group = *current;
  Lane& lane = group.lanes_[group.kernel_.state->thread];
  lane.call = {operation, immediate, operands, result};
  lane.status = LaneStatus::waiting;
  group.scheduler_ = boost::context::detail::jump_fcontext(group.scheduler_, nullptr).fctx;
}

int Workgroup::next() {
  const int words = int(runnable_.size());
  switch (policy_.order) {
    case Order::forward:
      for (int n = 0; n < words; ++n)
        if (const std::uint32_t bits = runnable_[std::size_t(n)]; bits != 0)
          return 32 * n + std::countr_zero(bits);
      return -1;
    case Order::reverse:
      for (int n = words - 1; n >= 0; --n)
        if (const std::uint32_t bits = runnable_[std::size_t(n)]; bits != 0)
          return 32 * n + 31 - std::countl_zero(bits);
      return -1;
    case Order::random:
    case Order::mixed:
      break;
  }
  return next_at_random();
}

// Any lane of the first warp that can run, among favourites in their order or from a random one on.
int Workgroup::next_at_random() {
  const std::size_t words = runnable_.size();
  if (steps_ >= favoured_until_) {
    favoured_until_ = steps_ + (std::uint64_t(32) << random_() % 6);
    favourites_.resize(words);
    std::iota(favourites_.begin(), favourites_.end(), 0);
    std::shuffle(favourites_.begin(), favourites_.end(), random_);
    if (random_() % 4 == 0) favourites_.clear();
  }
  const std::size_t start = favourites_.empty() ? random_() % words : 0;
  for (std::size_t n = 0; n < words; ++n) {
    const std::size_t warp = favourites_.empty() ? (start + n) % words : std::size_t(favourites_[n]);
    if (runnable_[warp] == 0) continue;
    const int turn = int(random_() % 32);
    return int(32 * warp) + (std::countr_zero(std::rotr(runnable_[warp], turn)) + turn) % 32;
  }
  return -1;
}

void Workgroup::schedule(Machine& machine) {
  int alive = threads();
  favoured_until_ = 0;
  for (steps_ = 0; alive > 0; ++steps_) {
    if (steps_ % kStepsPerTurn == 0) policy_ = policy_at(options_, number_ + steps_ / kStepsPerTurn);
    const int index = next();
    if (index < 0) {
      if (!machine.stuck()) deadlock(machine);
      continue;
    }
    Lane& lane = lanes_[std::size_t(index)];
    runnable_[std::size_t(index) / 32] &= ~(std::uint32_t(1) << index % 32);
    kernel_.state->thread = unsigned(index);
    lane.context = boost::context::detail::jump_fcontext(lane.context, &lane).fctx;
    machine.stopped(index);
    if (lane.status == LaneStatus::done) {
      --alive;
      machine.ended(index);
    } else {
      machine.call(index);
    }
  }
}

// "threads 0-31 wait at ..., thread 32 waits ...": neighbours at one place together.
void Workgroup::deadlock(const Machine& machine) const {
  constexpr int kMost = 12;
  std::string text;
  int places = 0;
  for (int first = 0, next = 0; first < threads(); first = next) {
    next = first + 1;
    if (is_done(first)) continue;
    const std::string place = machine.place(first);
    while (next < threads() && !is_done(next) && machine.place(next) == place) ++next;
    if (++places > kMost) continue;
    text += next == first + 1 ? fmt::format("; thread {} {}", first, place)
                              : fmt::format("; threads {}-{}: each {}", first, next - 1, place);
  }
  if (places > kMost) text += fmt::format("; and {} more", places - kMost);
  fail("emulator.deadlock", "no thread can go on" + text);
}

}  // namespace attnfuse::emulator
