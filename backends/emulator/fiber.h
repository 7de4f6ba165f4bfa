// Contexts and stacks of lanes. Lanes of a failed launch are abandoned where they stand, which only the plain
// contexts below boost::context::fiber allow: a fiber would resume them to unwind, but kernels have nothing
// to unwind.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace attnfuse::emulator {

using Context = boost::context::detail::fcontext_t;
using Transfer = boost::context::detail::transfer_t;

// Stacks of all lanes of a workgroup, each below a guard page.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 256 * 1024, kGuard = 4096;

  explicit Stacks(std::size_t count);
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  Context make(std::size_t n, void (*enter)(Transfer)) const {
    return boost::context::detail::make_fcontext(base_ + (n + 1) * kBytes, kBytes - kGuard, enter);
  }

 private:
  std::size_t size_;
  std::byte* base_;
};

}  // namespace attnfuse::emulator
