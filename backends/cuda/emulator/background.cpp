#include "backends/cuda/emulator/background.h"

#include <algorithm>
#include <limits>

namespace attnfuse::cuda {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr int kLongestDelay = 12;  // powers of two, in steps

}  // namespace

void Background::begin() {
  items_.clear();
  first_due_ = kNever;
}

Background::Ticket Background::add(std::function<void()> work) {
  const Ticket ticket = next_++;
  switch (group_.timing()) {
    case emulator::Timing::early:
      work();
      return ticket;
    case emulator::Timing::late:
      items_.push_back({ticket, kNever, std::move(work)});
      return ticket;
    case emulator::Timing::random:
    case emulator::Timing::mixed:
      break;
  }
  const std::uint64_t delay = group_.random()() % (std::uint64_t(2) << group_.random()() % kLongestDelay);
  items_.push_back({ticket, group_.steps() + delay, std::move(work)});
  first_due_ = std::min(first_due_, items_.back().due);
  return ticket;
}

void Background::take(std::list<Item>::iterator item) {
  const std::function<void()> work = std::move(item->work);
  items_.erase(item);
  work();
}

void Background::finish(Ticket ticket) {
  const auto item = std::ranges::find_if(items_, [&](const Item& i) { return i.ticket == ticket; });
  if (item != items_.end()) take(item);
}

void Background::step() {
  while (group_.steps() >= first_due_) {
    const auto due = std::ranges::find_if(items_, [&](const Item& i) { return i.due <= group_.steps(); });
    if (due != items_.end()) {
      take(due);
      continue;
    }
    first_due_ = kNever;
    for (const Item& item : items_) first_due_ = std::min(first_due_, item.due);
  }
}

bool Background::finish_one() {
  if (items_.empty()) return false;
  auto item = items_.begin();
  std::advance(item, std::ptrdiff_t(group_.random()() % items_.size()));
  take(item);
  return true;
}

}  // namespace attnfuse::cuda
