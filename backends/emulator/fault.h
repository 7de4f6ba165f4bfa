// Memory faults of emulated code become diagnostics. While a FaultGuard lives, SIGSEGV and SIGBUS of this
// thread jump to its `escape`; faults of other threads go to the handlers that were there before. One guard
// at a time per process.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace attnfuse::emulator {

class FaultGuard {
 public:
  explicit FaultGuard(sigjmp_buf& escape);
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
  ~FaultGuard();
  // What happened, after a jump: "touches 0x7f.., 4 bytes past the end of a buffer of 128 bytes".
  static std::string text();

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

// A range of memory whose first accesses are noticed rather than faults: `touched` runs inside the signal
// handler, makes the page accessible and returns true, or declines. One at a time per thread.
struct Watch {
  std::byte *begin = nullptr, *end = nullptr;
  bool (*touched)(void* context, std::byte* address) = nullptr;
  void* context = nullptr;
};
void set_watch(const Watch& watch);

// Memory whose surroundings fault. Aligned to 16 bytes, ends at an inaccessible page; the bytes that
// alignment leaves on either side hold a pattern.
class GuardedMemory {
 public:
  static constexpr std::byte kPattern{0xfb};  // a huge number in every type: reading it shows

  explicit GuardedMemory(std::size_t bytes);  // data() is null when there is no memory
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool is_intact() const;  // nothing was written around it
  // Whether all these bytes lie in one living GuardedMemory.
  static bool is_allocated(std::uint64_t address, std::size_t bytes);

 private:
  std::size_t size_, mapped_;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace attnfuse::emulator
