// Which of the many runs that a GPU may take is tried: the order of lanes, and when work that a machine does
// in the background takes place. A right kernel gives the same answer under all of them.
#pragma once

#include <cstdint>

namespace attnfuse::emulator {

enum class Order : std::uint8_t {
  forward,  // the first lane that can run
  reverse,  // the last one
  random,   // for a while lanes of one warp before those of another, for a while any lane
  mixed,    // another one for each workgroup, and again every few thousand steps
};

// Of background work, between its issue and the wait for it.
enum class Timing : std::uint8_t { late, early, random, mixed };

struct Options {
  Order order = Order::mixed;
  Timing timing = Timing::mixed;
  std::uint64_t seed = 1;
};

// Order and timing in force, never `mixed`: over nine turns every pair of them.
struct Policy {
  Order order = Order::forward;
  Timing timing = Timing::late;
};

inline Policy policy_at(const Options& options, std::uint64_t turn) {
  constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random};
  constexpr Timing kTimings[] = {Timing::late, Timing::early, Timing::random};
  return {options.order == Order::mixed ? kOrders[turn % 3] : options.order,
          options.timing == Timing::mixed ? kTimings[(turn + turn / 3) % 3] : options.timing};
}

}  // namespace attnfuse::emulator
