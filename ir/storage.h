// Storage forms: the tensors of a call as they lie in memory, and the place of a sequence's row in each. The
// graph has the logical shapes; whoever touches a call's tensors asks here. Read by the runtime's checks, by
// lowering and by emitters.
//
//             query, o                  key, value                         besides
//   plain     [b, h, sq, d]             [b, kv_heads, skv, d]
//   ragged    [h, total_q, d]           [kv_heads, total_k, d]             cu_seqlens_q, cu_seqlens_k [b + 1]
//   paged     [b, h, sq, d]             [pages, kv_heads, page_size, d]    page_table [b, max_pages],
//                                                                          seqused_k [b]
//   both      [h, total_q, d]           [pages, kv_heads, page_size, d]    cu_seqlens_q, page_table,
//   seqused_k
//
// Sequence b has the rows cu_seqlens[b] to cu_seqlens[b + 1], which do not descend and end inside the tensor;
// of pages it has the first seqused_k[b] rows of page_table[b, 0], page_table[b, 1], ... Neither is known
// when a kernel is launched, so keeping to this is up to the caller. Entries of the table past the rows in
// use and the rest of their pages are never looked at. lse, lse2 and max_logit are as o without d.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

inline constexpr std::string_view kQueryEnds = "cu_seqlens_q", kKeyEnds = "cu_seqlens_k",
                                  kPageTable = "page_table", kKeysUsed = "seqused_k";

// A tensor that calls of a program have.
struct CallTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Extent> shape;
  bool has_contiguous_axis = false;  // the last one: of q, k, v and o
  bool is_output = false;
  Where where = {};  // of its declaration
};
// q, k, v and captured tensors as the graph has them, then the storage form's own, then outputs.
std::vector<CallTensor> call_tensors(const Graph& graph);

// "ragged, paged(page_size = 16)"; empty: plain.
std::string to_string(const Storage& storage);

// The tensors that a storage form adds.
std::vector<TensorInfo> storage_tensors(const Storage& storage);

// The shape in memory of a tensor whose logical one is [b, heads, rows] with or without d.
enum class RowSide : std::uint8_t { query, key };
RowSide row_side(TensorRole role);  // values lie as keys do
std::vector<Extent> stored_shape(const Storage& storage, RowSide side, std::vector<Extent> logical);

// Where row r of a sequence lies in a tensor with these strides.
struct RowMap {
  enum class Kind : std::uint8_t {
    entry,  // b * stride_b + r * stride_s
    run,    // (first + r) * stride_s, `first` a scalar of the sequence
    pages,  // page_table[b, r / page_size] * stride_b + r % page_size * stride_s
  };
  Kind kind = Kind::entry;
  std::string_view first = {};
  int page_size = 1;

  // Names of the strides, dimension by dimension; the last axis of rows has none.
  std::vector<std::string> strides() const;
};
RowMap row_map(const Storage& storage, RowSide side);

// Scalars that programs with such a storage form define, where sequences start in ragged tensors.
inline constexpr std::string_view kFirstQuery = "q_first", kFirstKey = "k_first";

}  // namespace attnfuse
