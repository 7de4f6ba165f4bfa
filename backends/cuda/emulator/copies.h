// cp.async: 16 bytes from global to shared memory in the background, for the thread that asked.
#pragma once

#include <vector>

#include "backends/cuda/emulator/background.h"
#include "backends/cuda/emulator/shared_memory.h"

namespace attnfuse::cuda {

class Copies {
 public:
  Copies(SharedMemory& shared, Background& background) : shared_(shared), background_(background) {}

  void begin(int threads) { threads_.assign(std::size_t(threads), {}); }
  void copy(int lane, const std::uint64_t* operands);
  void commit(int lane);
  void wait(int lane);  // for all of its committed ones
  void ended(int lane) const;

 private:
  struct Thread {
    std::vector<Background::Ticket> open, committed;
  };
  SharedMemory& shared_;
  Background& background_;
  std::vector<Thread> threads_;
};

}  // namespace attnfuse::cuda
