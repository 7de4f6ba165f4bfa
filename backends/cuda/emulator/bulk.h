// cp.async.bulk.tensor: one thread moves a box of a tensor between global and shared memory. In shared memory
// rows are 128 bytes, and within a row the 16-byte chunk c lies at c ^ (row % 8).
#pragma once

#include <deque>
#include <vector>

#include "backends/cuda/emulator/background.h"
#include "backends/cuda/emulator/barriers.h"
#include "backends/cuda/emulator/shared_memory.h"
#include "backends/cuda/emulator/tensor_map.h"

namespace attnfuse::cuda {

// Where a byte of a swizzled tile lies: the address bits of the row within 8 change those of the chunk.
inline std::uint32_t swizzled(std::uint32_t address) { return address ^ (address >> 3 & 0x70U); }

class BulkCopies {
 public:
  BulkCopies(SharedMemory& shared, Background& background, Barriers& barriers)
      : shared_(shared), background_(background), barriers_(barriers) {}

  void begin(int threads);
  void end() const;
  void load(int lane, const std::uint64_t* operands);
  void store(int lane, const std::uint64_t* operands);
  void commit(int lane);
  void wait(int lane, int left, bool reading_only);
  void ended(int lane) const;

 private:
  struct Box {
    HostTensorMap map;
    std::int64_t at[4];  // d, s, h, b of its first element
    std::uint32_t shared = 0;
    Granules granules;
    std::string who;
  };
  struct Store {
    Granules granules;
    Background::Ticket ticket;
    bool is_read = false;
  };
  using Group = std::vector<Store>;
  struct Thread {
    Group open;
    std::deque<Group> groups;
  };

  Box box(std::uint64_t map, std::uint64_t shared, const std::uint64_t* coordinates, std::uint64_t hint,
          std::string who) const;
  // Bytes of the row that lie in the tensor, and where; none: {0, 0}.
  struct Row {
    std::uint64_t address;
    std::uint32_t first, bytes;  // within the box's row
  };
  static Row row(const Box& box, int index);

  SharedMemory& shared_;
  Background& background_;
  Barriers& barriers_;
  std::vector<Thread> threads_;
  int loads_in_flight_ = 0;
};

}  // namespace attnfuse::cuda
