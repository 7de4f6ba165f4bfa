// Work that a multiprocessor does by itself between an issue and the wait for it: copies, matrix products.
// The policy says when: at once, when a wait or the end forces it, or at a random step in between.
#pragma once

#include <functional>
#include <list>

#include "backends/emulator/workgroup.h"

namespace attnfuse::cuda {

class Background {
 public:
  using Ticket = std::uint64_t;

  explicit Background(emulator::Workgroup& group) : group_(group) {}

  void begin();
  Ticket add(std::function<void()> work);
  void finish(Ticket ticket);  // now, if it has not been done
  void step();                 // does what is due
  bool finish_one();           // any one; false when there is none

 private:
  struct Item {
    Ticket ticket;
    std::uint64_t due;
    std::function<void()> work;
  };
  void take(std::list<Item>::iterator item);

  emulator::Workgroup& group_;
  std::list<Item> items_;  // in order of issue
  Ticket next_ = 0;
  std::uint64_t first_due_ = 0;
};

}  // namespace attnfuse::cuda
