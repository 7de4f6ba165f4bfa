#include "backends/cuda/emulator/multiprocessor.h"

#include <fmt/format.h>

#include "backends/cuda/emulator/background.h"
#include "backends/cuda/emulator/barriers.h"
#include "backends/cuda/emulator/bulk.h"
#include "backends/cuda/emulator/copies.h"
#include "backends/cuda/emulator/meeting.h"
#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/products.h"
#include "backends/cuda/emulator/registers.h"
#include "backends/cuda/emulator/warp.h"

namespace attnfuse::cuda {
namespace {

class Multiprocessor : public emulator::Machine {
 public:
  Multiprocessor(emulator::Workgroup& group, int shared_bytes)
      : group_(group), shared_(group.shared(), shared_bytes) {}

  void begin() override {
    shared_.begin();
    background_.begin();
    warps_.begin();
    meetings_.begin();
    registers_.begin();
    copies_.begin(group_.threads());
    barriers_.begin();
    bulk_.begin(group_.threads());
    products_.begin();
  }

  void stopped(int lane) override {
    shared_.stopped(lane);
    background_.step();
  }

  void call(int lane) override;

  void ended(int lane) override {
    warps_.ended(lane);
    copies_.ended(lane);
    bulk_.ended(lane);
    products_.ended(lane);
    meetings_.ended();
  }

  bool stuck() override { return background_.finish_one(); }

  void end() override {
    bulk_.end();
    while (background_.finish_one()) {
    }
    barriers_.end();
    registers_.end();
    shared_.end();
  }

  std::string place(int lane) const override;

 private:
  void meet(int lane);
  // To a lane that asks again when it wakes.
  void answer(int lane, bool is_over) {
    *static_cast<std::uint32_t*>(group_.call(lane).result) = is_over ? 1 : 0;
    if (is_over) group_.wake(lane);
  }

  emulator::Workgroup& group_;
  SharedMemory shared_;
  Background background_{group_};
  Warps warps_{group_};
  Meetings meetings_{group_};
  Registers registers_{group_};
  Copies copies_{shared_, background_};
  Barriers barriers_{group_, shared_};
  BulkCopies bulk_{shared_, background_, barriers_};
  Products products_{group_, shared_, background_};
};

// Lanes that the operation does not hold up go on at the end; the others wake when their part is done.
void Multiprocessor::call(int lane) {
  const emulator::Call& call = group_.call(lane);
  const std::uint64_t* operands = words(call.operands);
  switch (Operation(call.operation)) {
    case Operation::sync_warp:
    case Operation::shuffle:
    case Operation::ballot:
    case Operation::load_matrix:
    case Operation::load_matrix_transposed:
    case Operation::store_matrix:
    case Operation::multiply_f16:
    case Operation::multiply_bf16:
    case Operation::raise_registers:
    case Operation::lower_registers:
      return meet(lane);
    case Operation::sync_threads:
      return meetings_.sync_threads(lane);
    case Operation::sync_named:
      return meetings_.named(lane, operands, true);
    case Operation::arrive_named:
      return meetings_.named(lane, operands, false);
    case Operation::copy:
      copies_.copy(lane, operands);
      break;
    case Operation::copy_commit:
      copies_.commit(lane);
      break;
    case Operation::copy_wait:
      copies_.wait(lane);
      break;
    case Operation::barrier_init:
      barriers_.init(lane, operands);
      break;
    case Operation::barrier_init_fence:
      barriers_.init_fence(lane);
      break;
    case Operation::barrier_arrive:
      barriers_.arrive(lane, operands, call.immediate != 0);
      break;
    case Operation::barrier_test:
      return answer(lane, barriers_.test(lane, operands));
    case Operation::bulk_load:
      bulk_.load(lane, operands);
      break;
    case Operation::bulk_store:
      bulk_.store(lane, operands);
      break;
    case Operation::bulk_commit:
      bulk_.commit(lane);
      break;
    case Operation::bulk_wait:
      bulk_.wait(lane, call.immediate, false);
      break;
    case Operation::bulk_wait_read:
      bulk_.wait(lane, call.immediate, true);
      break;
    case Operation::proxy_fence:
      shared_.fence(lane);
      break;
    case Operation::product_fence:
      products_.fence(lane);
      break;
    case Operation::product_shared_f16:
    case Operation::product_shared_bf16:
    case Operation::product_registers_f16:
    case Operation::product_registers_bf16:
      products_.issue(lane);
      break;
    case Operation::product_commit:
      products_.commit(lane);
      break;
    case Operation::product_wait:
      return answer(lane, products_.wait(lane, call.immediate));
  }
  group_.wake(lane);
}

void Multiprocessor::meet(int lane) {
  if (!warps_.arrive(lane)) return;
  const int warp = lane / kWarp, first = warp * kWarp;
  const emulator::Call& call = group_.call(lane);
  switch (const auto operation = Operation(call.operation)) {
    case Operation::shuffle:
    case Operation::ballot:
      exchange(group_, first);
      break;
    case Operation::load_matrix:
    case Operation::load_matrix_transposed:
    case Operation::store_matrix:
      move_matrices(group_, shared_, first);
      break;
    case Operation::multiply_f16:
    case Operation::multiply_bf16:
      multiply(group_, first);
      break;
    case Operation::raise_registers:
    case Operation::lower_registers:
      for (const int awake : operation == Operation::raise_registers ? registers_.raise(warp, call.immediate)
                                                                     : registers_.lower(warp, call.immediate))
        warps_.resume(awake);
      return;
    case Operation::sync_warp:
    default:
      break;
  }
  warps_.resume(warp);
}

std::string Multiprocessor::place(int lane) const {
  switch (Operation(group_.call(lane).operation)) {
    case Operation::sync_threads:
      return meetings_.place_in_threads();
    case Operation::sync_named:
      return meetings_.place_in_named(lane);
    case Operation::barrier_test:
      return barriers_.place(lane);
    case Operation::product_wait:
      return products_.place(lane);
    case Operation::raise_registers:
      if (const std::string place = registers_.place(lane); !place.empty()) return place;
      return warps_.place(lane);
    default:
      return warps_.place(lane);
  }
}

}  // namespace

std::unique_ptr<emulator::Machine> make_multiprocessor(emulator::Workgroup& group, const Target& target,
                                                       const Launch& launch) {
  if (launch.shared_bytes > target.shared_bytes)
    emulator::fail("device.failed", fmt::format("{}: {} bytes of shared memory, the limit is {}", target.name,
                                                launch.shared_bytes, target.shared_bytes));
  return std::make_unique<Multiprocessor>(group, launch.shared_bytes);
}

}  // namespace attnfuse::cuda
