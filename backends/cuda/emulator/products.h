// wgmma: matrix products of a warpgroup in the background. Its threads hand in their parts one by one: asking
// for a product does not make them meet. Operands belong to it from the first thread's part to the first
// wait. Until a thread's wait its accumulators are NaN.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "backends/cuda/emulator/background.h"
#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/product.h"
#include "backends/cuda/emulator/shared_memory.h"

namespace attnfuse::cuda {

class Products {
 public:
  Products(emulator::Workgroup& group, SharedMemory& shared, Background& background)
      : group_(group), shared_(shared), background_(background) {}

  void begin();
  void fence(int lane);
  void issue(int lane);  // what its call says
  void commit(int lane);
  bool wait(int lane, int left);  // false: it sleeps until others of its warpgroup have issued
  void ended(int lane) const;
  std::string place(int lane) const;

 private:
  // Registers of one thread that products write.
  struct Accumulator {
    float* memory = nullptr;
    std::vector<float> values;  // while they are pending
    int last = 0;               // product that writes them
  };
  struct Thread {
    int issued = 0;
    std::vector<int> groups;  // of each committed group: products issued up to its end
    bool is_fenced = false;   // since registers were last handed back
    std::vector<Accumulator> pending;
    std::map<float*, std::vector<float>> settled;  // contents when last handed back or fenced
    int sleeping_for = 0;                          // products, while it waits
  };
  struct Warpgroup {
    std::deque<Product> products;  // from number `first` on
    int first = 0, formed = 0, done = 0;
    std::vector<int> sleepers;
    std::vector<Background::Ticket> tickets;  // by product
  };

  Thread& thread(int lane) { return threads_[std::size_t(lane)]; }
  Accumulator* pending(int lane, const float* memory);
  void check_fenced(int lane, float* memory, int registers, const Request& request);
  void form(int number, Warpgroup& warpgroup);
  void perform(int number, Warpgroup& warpgroup, int up_to);
  void hand_back(int lane, int up_to);

  emulator::Workgroup& group_;
  SharedMemory& shared_;
  Background& background_;
  std::vector<Thread> threads_;
  std::vector<Warpgroup> warpgroups_;
};

}  // namespace attnfuse::cuda
