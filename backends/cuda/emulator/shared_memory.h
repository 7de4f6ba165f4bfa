// Shared memory of an emulated multiprocessor, and who may touch it. Kernels reach it directly; operations
// through an alias of the same pages, so that a kernel's own first write to a page after each step is noticed
// and charged to its lane. Of every 16 bytes it knows which background work still reads or writes them, and
// which threads wrote them and have not fenced since: the async proxy (bulk copies, wgmma) must not meet
// those.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attnfuse::cuda {

// Where 16 bytes lie: a shared address over 16.
using Granules = std::vector<std::uint32_t>;

// Background work, for messages: "a bulk load of thread 0".
struct Work {
  const char* what = "";
  const char* of = "";
  int number = 0;
  std::string text() const;
};

class SharedMemory {
 public:
  static constexpr std::uint32_t kBase = 1024;  // address of the first dynamic byte, as on the hardware
  static constexpr std::uint32_t kGranule = 16;

  // `pages`: the kernel's room, of which a launch uses `bytes`; the rest faults.
  SharedMemory(std::span<std::byte> pages, int bytes);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  void begin();            // all of it becomes NaN, nothing is in flight
  void end();              // "emulator.fault" when bytes past the end were written
  void track();            // from here on writes of kernels are charged
  void stopped(int lane);  // charges `lane` for what it wrote

  // Shared address of what a kernel points at: inside, aligned. "emulator.fault", "emulator.alignment".
  std::uint32_t address(std::uint64_t pointer, std::uint32_t bytes, std::uint32_t alignment,
                        const std::string& who) const;
  bool contains(std::uint32_t address, std::uint32_t bytes) const {
    return address >= kBase && address - kBase <= bytes_ && bytes <= bytes_ - (address - kBase);
  }

  // ---- operations of the generic proxy: a lane's own ------------------------------------------
  const std::byte* read(std::uint32_t address, std::uint32_t bytes, const std::string& who) const;
  void write(int lane, std::uint32_t address, std::span<const std::byte> from);
  void fence(int lane);  // its writes may be met by the async proxy

  // ---- background work -------------------------------------------------------------------------
  void begin_read(const Granules& granules, const Work& work);
  void end_read(const Granules& granules);
  // The bytes are NaN until they land. `generic`: cp.async, whose writes count as the lane's own.
  void begin_write(const Granules& granules, const Work& work, bool generic = false);
  void end_write(const Granules& granules);
  const std::byte* at(std::uint32_t address) const { return alias_ + (address - kBase); }
  void put(std::uint32_t address, const void* from, std::uint32_t bytes);

 private:
  struct Granule {
    std::uint16_t reads = 0, unfenced = 0;
    bool is_landing = false;
    Work reader, lander;
  };

  static bool touched(void* self, std::byte* address);
  Granule& granule(std::uint32_t index) { return granules_[index - kBase / kGranule]; }
  void check_async(const Granules& granules, const Work& work);
  int unfenced_writer(std::uint32_t index) const;
  void charge(int lane, std::uint32_t index);

  std::span<std::byte> pages_;
  std::uint32_t bytes_;
  int file_ = -1;
  std::byte* alias_ = nullptr;
  bool tracking_ = false;
  std::vector<std::byte> mirror_;   // contents as last seen
  std::vector<std::size_t> dirty_;  // pages that the running lane may have written
  std::vector<Granule> granules_;
  std::vector<std::vector<std::uint32_t>> unfenced_;  // by lane
};

// "+0x1c00", counted from the first dynamic byte.
std::string offset_text(std::uint32_t address);

}  // namespace attnfuse::cuda
