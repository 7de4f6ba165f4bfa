#include "backends/cuda/emulator/shared_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "backends/emulator/fault.h"
#include "backends/emulator/machine.h"

namespace attnfuse::cuda {
namespace {

using emulator::fail;

constexpr std::size_t kPage = 4096;
constexpr std::byte kNan{0xff}, kPattern{0xfb};  // bytes of NaN in every type; what lies past the end

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

std::string offset_text(std::uint32_t address) {
  return fmt::format("+{:#x}", address - SharedMemory::kBase);
}

std::string Work::text() const { return fmt::format("{} of {} {}", what, of, number); }

SharedMemory::SharedMemory(std::span<std::byte> pages, int bytes) : bytes_(std::uint32_t(bytes)) {
  ATTNFUSE_CHECK(bytes_ <= pages.size(), "a launch with more shared memory than its target has");
  const std::size_t used = whole_pages(bytes_);
  pages_ = pages.first(used);
  if (used < pages.size()) mprotect(pages.data() + used, pages.size() - used, PROT_NONE);
  granules_.resize(used / kGranule);
  unfenced_.resize(1024);
  if (used == 0) return;
  file_ = memfd_create("attnfuse-shared", MFD_CLOEXEC);
  void* alias = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, off_t(used)) == 0 &&
      mmap(pages_.data(), used, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, 0) != MAP_FAILED)
    alias = mmap(nullptr, used, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (alias == MAP_FAILED) fail("device.out-of-memory", "no memory for shared memory");
  alias_ = static_cast<std::byte*>(alias);
  dirty_.reserve(used / kPage);
  emulator::set_watch({pages_.data(), pages_.data() + used, &SharedMemory::touched, this});
}

SharedMemory::~SharedMemory() {
  emulator::set_watch({});
  if (alias_ != nullptr) munmap(alias_, pages_.size());
  if (file_ >= 0) close(file_);
}

void SharedMemory::begin() {
  if (tracking_) mprotect(pages_.data(), pages_.size(), PROT_READ | PROT_WRITE);
  tracking_ = false;
  dirty_.clear();
  if (alias_ != nullptr) {
    std::fill(alias_, alias_ + bytes_, kNan);
    std::fill(alias_ + bytes_, alias_ + pages_.size(), kPattern);
  }
  std::ranges::fill(granules_, Granule{});
  for (auto& granules : unfenced_) granules.clear();
}

void SharedMemory::end() {
  if (std::any_of(alias_ + bytes_, alias_ + pages_.size(), [](std::byte b) { return b != kPattern; }))
    fail("emulator.fault", fmt::format("a thread wrote just past the {} bytes of shared memory", bytes_));
}

void SharedMemory::track() {
  if (tracking_ || pages_.empty()) return;
  tracking_ = true;
  mirror_.assign(alias_, alias_ + pages_.size());
  mprotect(pages_.data(), pages_.size(), PROT_READ);
}

bool SharedMemory::touched(void* self, std::byte* address) {
  auto& memory = *static_cast<SharedMemory*>(self);
  const std::size_t page = std::size_t(address - memory.pages_.data()) / kPage;
  auto& dirty = memory.dirty_;
  if (!memory.tracking_ || std::ranges::find(dirty, page) != dirty.end()) return false;
  dirty.push_back(page);  // within its reserve
  return mprotect(memory.pages_.data() + page * kPage, kPage, PROT_READ | PROT_WRITE) == 0;
}

void SharedMemory::stopped(int lane) {
  for (const std::size_t page : dirty_) {
    const std::size_t begin = page * kPage;
    for (std::size_t at = begin; at < std::min(begin + kPage, std::size_t(bytes_)); at += kGranule)
      if (std::memcmp(alias_ + at, &mirror_[at], kGranule) != 0) {
        charge(lane, std::uint32_t(kBase + at) / kGranule);
        std::memcpy(&mirror_[at], alias_ + at, kGranule);
      }
    mprotect(pages_.data() + begin, kPage, PROT_READ);
  }
  dirty_.clear();
}

std::uint32_t SharedMemory::address(std::uint64_t pointer, std::uint32_t bytes, std::uint32_t alignment,
                                    const std::string& who) const {
  const std::uint64_t offset = pointer - reinterpret_cast<std::uint64_t>(pages_.data());
  if (offset > bytes_ || bytes > bytes_ - offset)
    fail("emulator.fault",
         fmt::format("{}: {} bytes at {:#x} (offset {}) are not in the {} bytes of shared memory", who, bytes,
                     pointer, std::int64_t(offset), bytes_));
  if (offset % alignment != 0)
    fail("emulator.alignment",
         fmt::format("{}: shared memory +{:#x} is not a multiple of {}", who, offset, alignment));
  return kBase + std::uint32_t(offset);
}

const std::byte* SharedMemory::read(std::uint32_t address, std::uint32_t bytes,
                                    const std::string& who) const {
  for (std::uint32_t n = address / kGranule; n <= (address + bytes - 1) / kGranule; ++n)
    if (const Granule& g = granules_[n - kBase / kGranule]; g.is_landing)
      fail("emulator.race", fmt::format("{} reads shared memory {}, which {} has not yet filled", who,
                                        offset_text(address), g.lander.text()));
  return at(address);
}

void SharedMemory::write(int lane, std::uint32_t address, std::span<const std::byte> from) {
  const auto bytes = std::uint32_t(from.size());
  for (std::uint32_t n = address / kGranule; n <= (address + bytes - 1) / kGranule; ++n) charge(lane, n);
  put(address, from.data(), bytes);
}

void SharedMemory::charge(int lane, std::uint32_t index) {
  Granule& g = granule(index);
  if (g.reads > 0 || g.is_landing)
    fail("emulator.race",
         fmt::format("thread {} writes shared memory {}, which {} {}", lane, offset_text(index * kGranule),
                     g.reads > 0 ? g.reader.text() : g.lander.text(),
                     g.reads > 0 ? "may still read" : "has not yet filled"));
  if (!tracking_) return;
  ++g.unfenced;
  unfenced_[std::size_t(lane)].push_back(index);
}

void SharedMemory::fence(int lane) {
  for (const std::uint32_t index : unfenced_[std::size_t(lane)]) --granule(index).unfenced;
  unfenced_[std::size_t(lane)].clear();
}

int SharedMemory::unfenced_writer(std::uint32_t index) const {
  for (std::size_t lane = 0; lane < unfenced_.size(); ++lane)
    if (std::find(unfenced_[lane].begin(), unfenced_[lane].end(), index) != unfenced_[lane].end())
      return int(lane);
  return -1;
}

void SharedMemory::check_async(const Granules& granules, const Work& work) {
  for (const std::uint32_t index : granules) {
    const Granule& g = granule(index);
    if (g.unfenced > 0)
      fail("emulator.proxy",
           fmt::format("{} meets shared memory {}, which thread {} wrote without a later af_fence_async",
                       work.text(), offset_text(index * kGranule), unfenced_writer(index)));
    if (g.is_landing)
      fail("emulator.race", fmt::format("{} meets shared memory {}, which {} has not yet filled", work.text(),
                                        offset_text(index * kGranule), g.lander.text()));
  }
}

void SharedMemory::begin_read(const Granules& granules, const Work& work) {
  check_async(granules, work);
  for (const std::uint32_t index : granules) {
    Granule& g = granule(index);
    ++g.reads;
    g.reader = work;
  }
}

void SharedMemory::end_read(const Granules& granules) {
  for (const std::uint32_t index : granules) --granule(index).reads;
}

void SharedMemory::begin_write(const Granules& granules, const Work& work, bool generic) {
  if (!generic) check_async(granules, work);
  for (const std::uint32_t index : granules) {
    Granule& g = granule(index);
    if (g.reads > 0 || g.is_landing)
      fail("emulator.race",
           fmt::format("{} overwrites shared memory {}, which {} {}", work.text(),
                       offset_text(index * kGranule), g.reads > 0 ? g.reader.text() : g.lander.text(),
                       g.reads > 0 ? "may still read" : "has not yet filled"));
    if (generic) charge(work.number, index);
    g.is_landing = true;
    g.lander = work;
    std::byte nan[kGranule];
    std::ranges::fill(nan, kNan);
    put(index * kGranule, nan, kGranule);
  }
}

void SharedMemory::end_write(const Granules& granules) {
  for (const std::uint32_t index : granules) granule(index).is_landing = false;
}

void SharedMemory::put(std::uint32_t address, const void* from, std::uint32_t bytes) {
  std::memcpy(alias_ + (address - kBase), from, bytes);
  if (tracking_) std::memcpy(&mirror_[address - kBase], from, bytes);
}

}  // namespace attnfuse::cuda
