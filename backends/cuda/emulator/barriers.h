// mbarriers: phases that end when all arrivals have come and all expected bytes have landed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/cuda/emulator/shared_memory.h"
#include "backends/emulator/workgroup.h"

namespace attnfuse::cuda {

class Barriers {
 public:
  Barriers(emulator::Workgroup& group, SharedMemory& shared) : group_(group), shared_(shared) {}

  void begin() { barriers_.clear(); }
  void end() const;
  void init(int lane, const std::uint64_t* operands);
  void init_fence(int lane);
  void arrive(int lane, const std::uint64_t* operands, bool expects_bytes);
  // Whether the phase of that parity is over; else the lane sleeps until another one is.
  bool test(int lane, const std::uint64_t* operands);
  // Address of the barrier that background work of `who` will report to.
  std::uint32_t for_bytes(std::uint64_t pointer, const std::string& who);
  void land(std::uint32_t address, std::uint32_t bytes);
  std::string place(int lane) const;

 private:
  struct Barrier {
    int arrivals = 0, pending = 0;
    std::int64_t bytes = 0;  // expected and not landed
    std::uint32_t phase = 0;
    int initializer = 0;
    bool is_fenced = false;
    std::vector<int> sleepers;
  };
  Barrier& find(std::uint32_t address, const std::string& who);
  void complete(std::uint32_t address, Barrier& barrier);

  emulator::Workgroup& group_;
  SharedMemory& shared_;
  std::map<std::uint32_t, Barrier> barriers_;
};

}  // namespace attnfuse::cuda
