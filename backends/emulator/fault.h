// Memory faults of emulated code become diagnostics. While a FaultGuard lives, SIGSEGV and SIGBUS of this
// thread jump to its `escape`; faults of other threads go to the handlers that were there before. One guard
// at a time per process.
#pragma once

#include <csetjmp>
#include <cstddef>
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

 private:
  std::size_t size_, mapped_;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace attnfuse::emulator
