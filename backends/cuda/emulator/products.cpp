#include "backends/cuda/emulator/products.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace attnfuse::cuda {
namespace {

using emulator::fail;

const float kPending = std::bit_cast<float>(0x7fc0dead);  // a NaN that nothing computes

bool same_bits(const float* a, const float* b, std::size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

std::string who(int lane, const Request& request) {
  return fmt::format("{} n {} of thread {}", name(request.operation), request.n, lane);
}

}  // namespace

void Products::begin() {
  threads_.assign(std::size_t(group_.threads()), {});
  warpgroups_.assign(std::size_t(group_.threads() / kWarpgroup), {});
}

Products::Accumulator* Products::pending(int lane, const float* memory) {
  for (Accumulator& accumulator : thread(lane).pending)
    if (accumulator.memory == memory) return &accumulator;
  return nullptr;
}

void Products::fence(int lane) {
  Thread& mine = thread(lane);
  mine.is_fenced = true;
  for (auto& [memory, values] : mine.settled)
    if (pending(lane, memory) == nullptr) std::copy(memory, memory + values.size(), values.begin());
}

// Registers that other instructions touched since the last fence are not the matrix unit's to use.
void Products::check_fenced(int lane, float* memory, int registers, const Request& request) {
  Thread& mine = thread(lane);
  const bool is_chained = pending(lane, memory) != nullptr;
  if (!mine.is_fenced && (!is_chained || request.a_in_registers()))
    fail("emulator.wgmma-fence",
         fmt::format("{} without an af_wgmma_fence since its registers were last used", who(lane, request)));
  const auto settled = mine.settled.find(memory);
  if (!is_chained && request.accumulate && settled != mine.settled.end() &&
      int(settled->second.size()) == registers &&
      !same_bits(memory, settled->second.data(), settled->second.size()))
    fail("emulator.wgmma-fence",
         fmt::format("{}: its accumulators were written after the last af_wgmma_fence", who(lane, request)));
}

void Products::issue(int lane) {
  const Request request(group_.call(lane));
  const int index = lane / kWarpgroup, registers = request.n / 2;
  auto* const memory = static_cast<float*>(group_.call(lane).result);
  if (std::size_t(index) >= warpgroups_.size())
    fail("emulator.diverged", fmt::format("{}: it is in no whole warpgroup", who(lane, request)));
  Warpgroup& warpgroup = warpgroups_[std::size_t(index)];
  Thread& mine = thread(lane);
  check_fenced(lane, memory, registers, request);

  const int number = mine.issued++;
  if (number == warpgroup.first + int(warpgroup.products.size())) {
    Product& product = warpgroup.products.emplace_back(request);
    product.group = int(mine.groups.size());
    product.granules = operands(request, shared_, fmt::format("a product of warpgroup {}", index));
    shared_.begin_read(product.granules, {"a product", "warpgroup", index});
  }
  Product& product = warpgroup.products[std::size_t(number - warpgroup.first)];
  if (!product.request.agrees_with(request) || product.group != int(mine.groups.size()))
    fail("emulator.diverged",
         fmt::format("warpgroup {}: product {} (group {}) of others is not {} (group {})", index, number,
                     product.group, who(lane, request), mine.groups.size()));
  const auto at = std::size_t(lane % kWarpgroup);
  product.registers[at] = request.registers;
  product.accumulators[at] = memory;

  Accumulator* accumulator = pending(lane, memory);
  if (accumulator == nullptr) {
    mine.pending.push_back({memory, std::vector<float>(memory, memory + registers), number});
    accumulator = &mine.pending.back();
    std::fill(memory, memory + registers, kPending);
  } else if (int(accumulator->values.size()) != registers) {
    fail("emulator.accumulator",
         fmt::format("{}: a pending product of another shape has its accumulators", who(lane, request)));
  }
  accumulator->last = number;
  if (++product.threads == kWarpgroup) form(index, warpgroup);
}

void Products::form(int index, Warpgroup& warpgroup) {
  const int number = warpgroup.formed++;
  warpgroup.tickets.push_back(background_.add(
      [this, index, number] { perform(index, warpgroups_[std::size_t(index)], number + 1); }));
  std::erase_if(warpgroup.sleepers, [&](int lane) {
    if (thread(lane).sleeping_for > warpgroup.formed) return false;
    group_.wake(lane);
    return true;
  });
}

// In order: each adds to what the ones before it left.
void Products::perform(int index, Warpgroup& warpgroup, int up_to) {
  for (; warpgroup.done < up_to; ++warpgroup.done) {
    const Product& product = warpgroup.products[std::size_t(warpgroup.done - warpgroup.first)];
    const int n = product.request.n;
    const std::vector<float> result = multiply(product, shared_);
    for (int t = 0; t < kWarpgroup; ++t) {
      Accumulator& accumulator = *pending(index * kWarpgroup + t, product.accumulators[std::size_t(t)]);
      for (int r = 0; r < n / 2; ++r) {
        const float sum = result[std::size_t(product_row(t, r) * n + product_column(t, r))];
        float& value = accumulator.values[std::size_t(r)];
        value = product.request.accumulate ? value + sum : sum;
      }
    }
  }
}

void Products::commit(int lane) { thread(lane).groups.push_back(thread(lane).issued); }

bool Products::wait(int lane, int left) {
  Thread& mine = thread(lane);
  const int groups = int(mine.groups.size()) - left;
  const int up_to = groups > 0 ? mine.groups[std::size_t(groups - 1)] : 0;
  if (up_to == 0) return true;
  const int index = lane / kWarpgroup;
  Warpgroup& warpgroup = warpgroups_[std::size_t(index)];
  if (warpgroup.formed < up_to) {
    mine.sleeping_for = up_to;
    warpgroup.sleepers.push_back(lane);
    return false;
  }
  for (int n = warpgroup.done; n < up_to; ++n) background_.finish(warpgroup.tickets[std::size_t(n)]);
  for (; warpgroup.first < up_to; ++warpgroup.first) {
    shared_.end_read(warpgroup.products.front().granules);
    warpgroup.products.pop_front();
  }
  hand_back(lane, up_to);
  return true;
}

// Accumulators of which no product is left.
void Products::hand_back(int lane, int up_to) {
  Thread& mine = thread(lane);
  std::erase_if(mine.pending, [&](Accumulator& accumulator) {
    if (accumulator.last >= up_to) return false;
    float* const memory = accumulator.memory;
    for (std::size_t r = 0; r < accumulator.values.size(); ++r)
      if (std::bit_cast<std::uint32_t>(memory[r]) != std::bit_cast<std::uint32_t>(kPending))
        fail("emulator.accumulator",
             fmt::format("thread {} wrote accumulator register {} while a product was pending", lane, r));
    std::ranges::copy(accumulator.values, memory);
    mine.settled[memory] = std::move(accumulator.values);
    mine.is_fenced = false;
    return true;
  });
}

void Products::ended(int lane) const {
  if (!threads_[std::size_t(lane)].pending.empty())
    fail("emulator.unfinished", fmt::format("thread {} ends without waiting for its products", lane));
}

std::string Products::place(int lane) const {
  const Warpgroup& warpgroup = warpgroups_[std::size_t(lane / kWarpgroup)];
  const int number = warpgroup.formed;
  const int threads = number - warpgroup.first < int(warpgroup.products.size())
                          ? warpgroup.products[std::size_t(number - warpgroup.first)].threads
                          : 0;
  return fmt::format("waits for product {} of warpgroup {}, which {} of {} threads have asked for", number,
                     lane / kWarpgroup, threads, kWarpgroup);
}

}  // namespace attnfuse::cuda
