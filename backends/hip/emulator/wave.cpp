#include "backends/hip/emulator/wave.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/hip/emulator/exchange.h"
#include "backends/hip/emulator/matrix.h"

namespace attnfuse::hip {
namespace {

class WaveMachine : public emulator::Machine {
 public:
  WaveMachine(emulator::Workgroup& group, const Target& target)
      : group_(group), size_(target.warp_size), flushes_denormals_(target.arch == "gfx90a") {}

  void begin() override {
    std::memset(group_.shared().data(), 0xff, group_.shared().size());  // NaN in every type
    running_.clear();
    for (int first = 0; first < group_.threads(); first += size_) running_.push_back(lanes_of(first));
    at_barrier_ = ended_ = 0;
  }
  void call(int lane) override { stopped_at_meeting(lane / size_); }
  void ended(int lane) override { stopped_at_meeting(lane / size_); }
  std::string place(int lane) const override { return "waits at " + at(lane); }

 private:
  int lanes_of(int first) const { return std::min(size_, group_.threads() - first); }
  Operation operation(int lane) const { return Operation(group_.call(lane).operation); }
  std::string at(int lane) const {
    return group_.is_done(lane) ? "the end" : std::string(name(operation(lane)));
  }

  void stopped_at_meeting(int wave) {
    if (--running_[std::size_t(wave)] > 0) return;
    const int first = wave * size_, count = lanes_of(first);
    for (int lane = first + 1; lane < first + count; ++lane)
      if (group_.is_done(lane) != group_.is_done(first) ||
          (!group_.is_done(lane) && (operation(lane) != operation(first) ||
                                     group_.call(lane).immediate != group_.call(first).immediate)))
        emulator::fail("emulator.diverged", fmt::format("wave {}: lane 0 is at {}, lane {} at {}", wave,
                                                        at(first), lane - first, at(lane)));
    if (group_.is_done(first)) {
      ended_ += count;
      return open_barrier();
    }
    if (operation(first) == Operation::workgroup_barrier) {
      at_barrier_ += count;
      return open_barrier();
    }
    if (const std::string wrong = perform(first, count); !wrong.empty())
      emulator::fail("emulator.operand", fmt::format("wave {}: {}", wave, wrong));
    resume(first, count);
  }

  void open_barrier() {
    if (at_barrier_ == 0 || at_barrier_ + ended_ < group_.threads()) return;
    at_barrier_ = 0;
    for (int first = 0; first < group_.threads(); first += size_)
      if (!group_.is_done(first)) resume(first, lanes_of(first));
  }

  void resume(int first, int count) {
    running_[std::size_t(first / size_)] = count;
    for (int lane = first; lane < first + count; ++lane) group_.wake(lane);
  }

  std::string perform(int first, int count) const {
    if (operation(first) == Operation::wave_barrier) return {};
    std::vector<emulator::Call> calls;
    for (int lane = first; lane < first + count; ++lane) calls.push_back(group_.call(lane));
    return is_matrix(operation(first)) ? multiply(calls, flushes_denormals_) : exchange(calls);
  }

  emulator::Workgroup& group_;
  int size_;
  bool flushes_denormals_;    // of matrix operands
  std::vector<int> running_;  // of each wave: lanes on their way to the next meeting
  int at_barrier_ = 0, ended_ = 0;
};

}  // namespace

std::unique_ptr<emulator::Machine> make_machine(emulator::Workgroup& group, const Target& target) {
  return std::make_unique<WaveMachine>(group, target);
}

}  // namespace attnfuse::hip
