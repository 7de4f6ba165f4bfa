// Host tensors: shape, strides and bytes, converted to and from double precision one element at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/types.h"

namespace attnfuse {

// Shape and strides in elements. query [b,h,sq,head_dim], key [b,kv_heads,skv,head_dim],
// value [b,kv_heads,skv,v_head_dim], o [b,h,sq,v_head_dim], lse [b,h,sq]; captured tensors as declared. Other
// forms of storage: ir/storage.h.
// Strides are free (0 = broadcast), except that the last axis of q, k, v and o is contiguous.
struct TensorLayout {
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;

  static TensorLayout contiguous(DType dtype, std::vector<std::int64_t> shape);
  std::int64_t element_count() const;
  std::int64_t offset(std::span<const std::int64_t> index) const;  // in elements
  std::int64_t span_elements() const;  // 1 + offset of the last element; 0 when empty
};

struct HostTensor {
  TensorLayout layout;
  std::vector<std::byte> bytes;  // span_elements() * size_in_bytes(dtype)

  static HostTensor zeros(TensorLayout layout);
  double get(std::span<const std::int64_t> index) const;
  void set(std::span<const std::int64_t> index, double value);  // rounds to nearest even
};

using HostTensors = std::map<std::string, HostTensor>;

// Conversions, exact as the hardware does them (round to nearest even, NaN kept).
double load_element(DType dtype, const std::byte* at);
void store_element(DType dtype, std::byte* at, double value);
double round_to(DType dtype, double value);

// Run-time sizes of one call, read off the tensors and checked against the program. Where sequences have
// lengths of their own, which are in device memory, sq and skv are what none of them exceeds.
struct Sizes {
  std::int64_t batch = 0, sq = 0, skv = 0;
  std::int64_t total_q = 0, total_k = 0;  // of ragged tensors: rows of all sequences
  std::int64_t shares = 1;                // that the keys are divided into, see TileProgram::shares
  bool operator==(const Sizes&) const = default;
};

}  // namespace attnfuse
