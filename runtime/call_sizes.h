// The sizes of a call while its tensors are looked at one after the other: compiled in, or learned from the
// first tensor that has them.
#pragma once

#include <array>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse {

class KnownSizes {
 public:
  static constexpr std::int64_t kUnknown = -1;
  static constexpr std::int64_t kMost = INT32_MAX;

  explicit KnownSizes(const ProgramInfo& info);

  // What a dimension of this extent has to be; `found`, where nothing is known so far.
  std::int64_t expect(const Extent& extent, std::int64_t found);
  // Of a call whose tensors have all been seen.
  Sizes sizes() const;

 private:
  std::int64_t& at(Size size) { return values_[std::size_t(size)]; }
  std::int64_t at(Size size) const { return values_[std::size_t(size)]; }

  Storage storage_;
  std::array<std::int64_t, kSizeCount> values_;
};

// How long a dimension of this extent is in a call, where its sizes say so: no number of pages.
std::int64_t length_in_call(const Extent& extent, const ProgramInfo& info, const Sizes& sizes);

}  // namespace attnfuse
