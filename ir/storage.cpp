#include "ir/storage.h"

#include <fmt/format.h>

#include "ir/tile.h"

namespace attnfuse {
using Shape = std::vector<Extent>;

RowSide row_side(TensorRole role) {
  return role == TensorRole::key || role == TensorRole::value ? RowSide::key : RowSide::query;
}

Shape stored_shape(const Storage& storage, RowSide side, Shape logical) {
  if (side == RowSide::key && storage.page_size) {
    logical[0] = {Size::pages};
    logical[2] = {std::int64_t(*storage.page_size)};
  } else if (storage.ragged) {
    logical[2] = {side == RowSide::query ? Size::total_q : Size::total_k};
    logical.erase(logical.begin());
  }
  return logical;
}

std::string to_string(const Storage& storage) {
  std::string text = storage.ragged ? "ragged" : "";
  if (storage.page_size)
    text += fmt::format("{}paged(page_size = {})", text.empty() ? "" : ", ", *storage.page_size);
  return text;
}

std::vector<TensorInfo> storage_tensors(const Storage& storage) {
  std::vector<TensorInfo> tensors;
  const auto add = [&](std::string_view name, Shape shape) {
    tensors.push_back({std::string(name), DType::i32, TensorRole::captured, std::move(shape), false, {}, {}});
  };
  const Extent ends{Size::sequence_ends}, batch{Size::batch}, max_pages{Size::max_pages};
  if (storage.ragged) add(kQueryEnds, {ends});
  if (storage.ragged && !storage.page_size) add(kKeyEnds, {ends});
  if (storage.page_size) {
    add(kPageTable, {batch, max_pages});
    add(kKeysUsed, {batch});
  }
  return tensors;
}

std::vector<CallTensor> call_tensors(const Graph& graph) {
  const Storage& storage = graph.info().storage;
  std::vector<CallTensor> tensors;
  for (const TensorInfo& tensor : graph.tensors()) {
    if (tensor.role == TensorRole::constant) continue;
    const bool has_rows = tensor.role != TensorRole::captured && tensor.shape.size() == 4;
    tensors.push_back({tensor.name, tensor.dtype,
                       has_rows ? stored_shape(storage, row_side(tensor.role), tensor.shape) : tensor.shape,
                       tensor.role != TensorRole::captured, false, tensor.where});
  }
  for (TensorInfo& tensor : storage_tensors(storage))
    tensors.push_back({tensor.name, tensor.dtype, std::move(tensor.shape), false, false, {}});
  for (const OutputInfo& output : outputs_of(graph)) {
    Shape shape{{Size::batch}, {Size::heads}, {Size::sq}};
    if (output.has_dim) shape.push_back({Size::v_head_dim});
    tensors.push_back({output.name,
                       output.dtype,
                       stored_shape(storage, RowSide::query, std::move(shape)),
                       output.has_dim,
                       true,
                       {}});
  }
  return tensors;
}

std::vector<std::string> RowMap::strides() const {
  if (kind == Kind::run) return {"h", "s"};
  return {"b", "h", "s"};
}

RowMap row_map(const Storage& storage, RowSide side) {
  if (side == RowSide::key && storage.page_size) return {RowMap::Kind::pages, {}, *storage.page_size};
  if (storage.ragged) return {RowMap::Kind::run, side == RowSide::query ? kFirstQuery : kFirstKey};
  return {};
}

}  // namespace attnfuse
