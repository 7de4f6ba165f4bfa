#include "backends/cuda/emulator/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/emulator/fault.h"

namespace attnfuse::cuda {
namespace {

using emulator::fail;

constexpr std::uint32_t kRowBytes = 128, kTileAlignment = 1024;
// Of the L2 cache: normal, evict first, evict last.
constexpr std::uint64_t kHints[] = {0x1000000000000000, 0x12f0000000000000, 0x14f0000000000000};

}  // namespace

void BulkCopies::begin(int threads) {
  threads_.assign(std::size_t(threads), {});
  loads_in_flight_ = 0;
}

BulkCopies::Box BulkCopies::box(std::uint64_t map, std::uint64_t shared, const std::uint64_t* coordinates,
                                std::uint64_t hint, std::string who) const {
  if (std::ranges::find(kHints, hint) == std::end(kHints))
    fail("emulator.operand", fmt::format("{}: {:#x} is no cache hint", who, hint));
  Box result;
  result.map = read_tensor_map(map, who);
  for (int n = 0; n < 4; ++n) result.at[n] = std::int32_t(coordinates[n]);
  const auto bytes = std::uint32_t(result.map.box_rows) * kRowBytes;
  result.shared = shared_.address(shared, bytes, kTileAlignment, who);
  for (std::uint32_t at = 0; at < bytes; at += SharedMemory::kGranule)
    result.granules.push_back((result.shared + at) / SharedMemory::kGranule);
  result.who = std::move(who);
  return result;
}

BulkCopies::Row BulkCopies::row(const Box& box, int index) {
  const HostTensorMap& map = box.map;
  const std::int64_t at[4] = {box.at[0], box.at[1] + index, box.at[2], box.at[3]};
  std::uint64_t address = map.address;
  for (int n = 1; n < 4; ++n) {
    if (at[n] < 0 || at[n] >= map.extents[n]) return {0, 0, 0};
    address += std::uint64_t(at[n] * map.strides_bytes[n - 1]);
  }
  const std::int64_t first = std::clamp<std::int64_t>(-at[0], 0, map.box_columns);
  const std::int64_t last = std::clamp<std::int64_t>(map.extents[0] - at[0], first, map.box_columns);
  const Row result = {address + std::uint64_t((at[0] + first) * map.element_bytes),
                      std::uint32_t(first * map.element_bytes),
                      std::uint32_t((last - first) * map.element_bytes)};
  if (result.bytes > 0 && !emulator::GuardedMemory::is_allocated(result.address, result.bytes))
    fail("emulator.fault", fmt::format("{}: {} bytes at {:#x} are not all in one buffer", box.who,
                                       result.bytes, result.address));
  return result;
}

void BulkCopies::load(int lane, const std::uint64_t* operands) {
  Box box = this->box(operands[1], operands[0], operands + 3, operands[7],
                      fmt::format("af_bulk_load of thread {}", lane));
  const std::uint32_t barrier = barriers_.for_bytes(operands[2], box.who);
  shared_.begin_write(box.granules, {"a bulk load", "thread", lane});
  ++loads_in_flight_;
  background_.add([this, box = std::move(box), barrier] {
    for (int r = 0; r < box.map.box_rows; ++r) {
      std::byte bytes[kRowBytes] = {};
      if (const Row from = row(box, r); from.bytes > 0)
        std::memcpy(bytes + from.first, reinterpret_cast<const void*>(from.address), from.bytes);
      const std::uint32_t to = box.shared + std::uint32_t(r) * kRowBytes;
      for (std::uint32_t at = 0; at < kRowBytes; at += SharedMemory::kGranule)
        shared_.put(swizzled(to + at), bytes + at, SharedMemory::kGranule);
    }
    shared_.end_write(box.granules);
    --loads_in_flight_;
    barriers_.land(barrier, std::uint32_t(box.map.box_rows) * kRowBytes);
  });
}

// Shared memory is read at once: nothing may change it before the wait. Global memory changes later.
void BulkCopies::store(int lane, const std::uint64_t* operands) {
  const Box box = this->box(operands[0], operands[1], operands + 2, operands[6],
                            fmt::format("af_bulk_store of thread {}", lane));
  shared_.begin_read(box.granules, {"a bulk store", "thread", lane});
  struct Piece {
    Row to;
    std::byte bytes[kRowBytes];
  };
  std::vector<Piece> pieces;
  for (int r = 0; r < box.map.box_rows; ++r) {
    Piece piece{row(box, r), {}};
    const std::uint32_t from = box.shared + std::uint32_t(r) * kRowBytes;
    for (std::uint32_t at = 0; at < kRowBytes; at += SharedMemory::kGranule)
      std::memcpy(piece.bytes + at, shared_.at(swizzled(from + at)), SharedMemory::kGranule);
    if (piece.to.bytes > 0) pieces.push_back(piece);
  }
  const Background::Ticket ticket = background_.add([pieces = std::move(pieces)] {
    for (const Piece& piece : pieces)
      std::memcpy(reinterpret_cast<void*>(piece.to.address), piece.bytes + piece.to.first, piece.to.bytes);
  });
  threads_[std::size_t(lane)].open.push_back({box.granules, ticket});
}

void BulkCopies::commit(int lane) {
  Thread& thread = threads_[std::size_t(lane)];
  thread.groups.push_back(std::move(thread.open));
  thread.open.clear();
}

void BulkCopies::wait(int lane, int left, bool reading_only) {
  std::deque<Group>& groups = threads_[std::size_t(lane)].groups;
  const int done = int(groups.size()) - left;
  for (int n = 0; n < done; ++n)
    for (Store& store : groups[std::size_t(n)]) {
      if (!store.is_read) shared_.end_read(store.granules);
      store.is_read = true;
      if (!reading_only) background_.finish(store.ticket);
    }
  for (int n = 0; n < done && !reading_only; ++n) groups.pop_front();
}

void BulkCopies::ended(int lane) const {
  const Thread& thread = threads_[std::size_t(lane)];
  bool is_reading = !thread.open.empty();
  for (const Group& group : thread.groups)
    for (const Store& store : group) is_reading = is_reading || !store.is_read;
  if (is_reading)
    fail("emulator.unfinished",
         fmt::format("thread {} ends without waiting until its bulk stores have read shared memory", lane));
}

void BulkCopies::end() const {
  if (loads_in_flight_ > 0)
    fail("emulator.unfinished", fmt::format("the workgroup ends before {} bulk loads", loads_in_flight_));
}

}  // namespace attnfuse::cuda
