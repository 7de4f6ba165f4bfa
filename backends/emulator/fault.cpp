#include "backends/emulator/fault.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace attnfuse::emulator {
namespace {

constexpr std::size_t kPage = 4096, kAlignment = 16;
// Inaccessible on either side of a buffer: what strays no farther is caught wherever the buffer lies.
constexpr std::size_t kGuard = 64 * kPage;

std::mutex guard_mutex;                        // held while a guard lives
struct sigaction previous_segv, previous_bus;  // written under guard_mutex
thread_local sigjmp_buf* escape_of_thread = nullptr;
thread_local std::uintptr_t fault_address = 0;
thread_local Watch watch_of_thread;

std::mutex buffers_mutex;
std::map<std::uintptr_t, std::size_t>& buffers() {
  static std::map<std::uintptr_t, std::size_t> all;
  return all;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  if (escape_of_thread == nullptr) {
    const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
    std::signal(signal, SIG_DFL);  // the instruction repeats and ends the program
    return;
  }
  auto* const at = static_cast<std::byte*>(info->si_addr);
  const Watch& watch = watch_of_thread;
  if (at >= watch.begin && at < watch.end && watch.touched(watch.context, at)) return;
  fault_address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  siglongjmp(*escape_of_thread, 1);
}

}  // namespace

// Faults of exhausted lane stacks need a stack of their own.
struct FaultGuard::Saved {
  std::unique_lock<std::mutex> lock{guard_mutex};
  std::vector<std::byte> stack = std::vector<std::byte>(64 * 1024);
  stack_t previous_stack{};
};

FaultGuard::FaultGuard(sigjmp_buf& escape) : saved_(std::make_unique<Saved>()) {
  stack_t stack{};
  stack.ss_sp = saved_->stack.data();
  stack.ss_size = saved_->stack.size();
  sigaltstack(&stack, &saved_->previous_stack);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &previous_segv);
  sigaction(SIGBUS, &action, &previous_bus);
  escape_of_thread = &escape;
}

FaultGuard::~FaultGuard() {
  escape_of_thread = nullptr;
  sigaction(SIGSEGV, &previous_segv, nullptr);
  sigaction(SIGBUS, &previous_bus, nullptr);
  sigaltstack(&saved_->previous_stack, nullptr);
}

void set_watch(const Watch& watch) { watch_of_thread = watch; }

std::string FaultGuard::text() {
  const std::lock_guard lock(buffers_mutex);
  const std::string at = fmt::format("touches {:#x}", fault_address);
  const auto after = buffers().upper_bound(fault_address);
  if (after != buffers().begin()) {
    const auto& [begin, size] = *std::prev(after);
    if (fault_address - begin - size < kGuard)
      return fmt::format("{}, {} bytes past the end of a buffer of {} bytes", at,
                         fault_address - begin - size, size);
  }
  if (after != buffers().end() && after->first - fault_address < kGuard)
    return fmt::format("{}, {} bytes before a buffer of {} bytes", at, after->first - fault_address,
                       after->second);
  return at + (fault_address == 0 ? " (a null or misaligned address)" : ", which is in no buffer");
}

GuardedMemory::GuardedMemory(std::size_t bytes) : size_(bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t pages = (rounded + kPage - 1) / kPage * kPage;
  mapped_ = pages + 2 * kGuard;
  if (bytes > SIZE_MAX - 4 * kGuard) return;
  void* const base = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return;
  base_ = static_cast<std::byte*>(base);
  if (mprotect(base_ + kGuard, pages, PROT_READ | PROT_WRITE) != 0) return;
  data_ = base_ + kGuard + pages - rounded;
  std::fill(base_ + kGuard, data_, kPattern);
  std::fill(data_ + size_, base_ + kGuard + pages, kPattern);
  const std::lock_guard lock(buffers_mutex);
  buffers()[reinterpret_cast<std::uintptr_t>(data_)] = size_;
}

GuardedMemory::~GuardedMemory() {
  if (data_ != nullptr) {
    const std::lock_guard lock(buffers_mutex);
    buffers().erase(reinterpret_cast<std::uintptr_t>(data_));
  }
  if (base_ != nullptr) munmap(base_, mapped_);
}

bool GuardedMemory::is_allocated(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(buffers_mutex);
  const auto after = buffers().upper_bound(address);
  if (after == buffers().begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin <= size && bytes <= size - (address - begin);
}

bool GuardedMemory::is_intact() const {
  const auto holds = [](std::byte b) { return b == kPattern; };
  return std::all_of(base_ + kGuard, data_, holds) &&
         std::all_of(data_ + size_, base_ + mapped_ - kGuard, holds);
}

}  // namespace attnfuse::emulator
