#include "backends/emulator/workgroup.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>

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
      runnable_((lanes_.size() + 63) / 64),
      stacks_(lanes_.size()) {}

Status Workgroup::run(Machine& machine, const std::uint32_t (&where)[3], std::uint64_t number) {
  std::copy(std::begin(where), std::end(where), kernel_.state->workgroup);
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
  runnable_[std::size_t(lane) / 64] |= std::uint64_t(1) << lane % 64;
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
  const auto word = [&](int n) { return runnable_[std::size_t(n)]; };
  switch (policy_.order) {
    case Order::forward:
      for (int n = 0; n < words; ++n)
        if (word(n) != 0) return 64 * n + std::countr_zero(word(n));
      return -1;
    case Order::reverse:
      for (int n = words - 1; n >= 0; --n)
        if (word(n) != 0) return 64 * n + 63 - std::countl_zero(word(n));
      return -1;
    case Order::random:
    case Order::mixed:
      break;
  }
  // The first from a random place on, around the end.
  const int start = int(random_() % lanes_.size());
  for (int n = 0; n <= words; ++n) {
    const int at = (start / 64 + n) % words;
    std::uint64_t bits = word(at);
    if (n == 0) bits &= ~std::uint64_t(0) << start % 64;
    if (bits != 0) return 64 * at + std::countr_zero(bits);
  }
  return -1;
}

void Workgroup::schedule(Machine& machine) {
  int alive = threads();
  for (steps_ = 0; alive > 0; ++steps_) {
    if (steps_ % kStepsPerTurn == 0) policy_ = policy_at(options_, number_ + steps_ / kStepsPerTurn);
    const int index = next();
    if (index < 0) {
      if (!machine.stuck()) deadlock(machine);
      continue;
    }
    Lane& lane = lanes_[std::size_t(index)];
    runnable_[std::size_t(index) / 64] &= ~(std::uint64_t(1) << index % 64);
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
