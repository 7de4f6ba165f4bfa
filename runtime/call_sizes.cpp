#include "runtime/call_sizes.h"

#include <algorithm>

namespace attnfuse {

KnownSizes::KnownSizes(const ProgramInfo& info) : storage_(info.storage) {
  for (std::size_t size = 0; size < kSizeCount; ++size)
    values_[size] = info.size(Size(size)).value_or(kUnknown);
}

std::int64_t KnownSizes::expect(const Extent& extent, std::int64_t found) {
  if (const auto* number = std::get_if<std::int64_t>(&extent.value)) return *number;
  const Size size = std::get<Size>(extent.value);
  const bool is_ends = size == Size::sequence_ends;
  std::int64_t& value = at(is_ends ? Size::batch : size);
  if (value == kUnknown) value = is_ends ? std::max<std::int64_t>(found - 1, 0) : found;
  return is_ends ? value + 1 : value;
}

// Sequences are at most as long as captured tensors have room for, and as what they lie in.
Sizes KnownSizes::sizes() const {
  const auto known = [](std::int64_t value) { return std::max<std::int64_t>(value, 0); };
  const auto bounded = [&](Size size, std::int64_t most) {
    return at(size) == kUnknown ? most : std::min(at(size), most);
  };
  Sizes sizes{known(at(Size::batch)), known(at(Size::sq)), known(at(Size::skv))};
  if (storage_.ragged) {
    sizes.total_q = known(at(Size::total_q));
    sizes.total_k = known(at(Size::total_k));
    sizes.sq = bounded(Size::sq, sizes.total_q);
    sizes.skv = bounded(Size::skv, sizes.total_k);
  }
  if (storage_.page_size)
    sizes.skv =
        bounded(Size::skv, std::min<std::int64_t>(known(at(Size::max_pages)) * *storage_.page_size, kMost));
  return sizes;
}

std::int64_t length_in_call(const Extent& extent, const ProgramInfo& info, const Sizes& sizes) {
  if (const auto* number = std::get_if<std::int64_t>(&extent.value)) return *number;
  const Size size = std::get<Size>(extent.value);
  switch (size) {
    case Size::batch:
      return sizes.batch;
    case Size::sq:
      return sizes.sq;
    case Size::skv:
      return sizes.skv;
    case Size::total_q:
      return sizes.total_q;
    case Size::total_k:
      return sizes.total_k;
    case Size::sequence_ends:
      return sizes.batch + 1;
    case Size::heads:
    case Size::kv_heads:
    case Size::head_dim:
    case Size::v_head_dim:
      return *info.size(size);
    case Size::pages:
    case Size::max_pages:
      break;
  }
  ATTNFUSE_CHECK(false, "a call's sizes do not say how many pages there are");
}

}  // namespace attnfuse
