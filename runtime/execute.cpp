#include "runtime/execute.h"

#include <algorithm>
#include <cstring>

namespace attnfuse {
namespace {

const DeviceTensor& find_tensor(const DeviceTensors& tensors, const std::string& name) {
  const auto found = tensors.find(name);
  ATTNFUSE_CHECK(found != tensors.end(), "no tensor is bound to '" + name + "'");
  return found->second;
}

std::int64_t run_time_size(const Sizes& sizes, Size size) {
  switch (size) {
    case Size::batch:
      return sizes.batch;
    case Size::sq:
      return sizes.sq;
    case Size::skv:
      return sizes.skv;
    case Size::heads:
    case Size::kv_heads:
    case Size::head_dim:
    case Size::v_head_dim:
      break;
  }
  ATTNFUSE_CHECK(false, "a size that is compiled in is no parameter");
}

template <class T>
void put(std::vector<std::byte>& block, int offset, T value) {
  ATTNFUSE_CHECK(offset >= 0 && std::size_t(offset) + sizeof value <= block.size(),
                 "a parameter past its block");
  std::memcpy(block.data() + offset, &value, sizeof value);
}

}  // namespace

std::vector<std::byte> argument_block(const TileProgram& program, const DeviceTensors& tensors,
                                      const Sizes& sizes) {
  std::vector<std::byte> block(std::size_t(program.param_bytes));
  for (const ParamField& field : program.params) {
    switch (field.kind) {
      case ParamField::Kind::pointer:
        put(block, field.offset, find_tensor(tensors, field.tensor).address);
        break;
      case ParamField::Kind::stride:
        put(block, field.offset,
            find_tensor(tensors, field.tensor).layout.strides.at(std::size_t(field.dim)));
        break;
      case ParamField::Kind::tensor_map:
      case ParamField::Kind::counter:
        ATTNFUSE_CHECK(false, "a program with roles needs its device to bind arguments");
      case ParamField::Kind::size:
        put(block, field.offset, std::int32_t(run_time_size(sizes, field.size)));
        break;
    }
  }
  return block;
}

Launch launch_shape(const TileProgram& program, const Sizes& sizes) {
  const std::int64_t block_q = program.schedule.block_q, max_x = program.target.max_grid_x;
  const std::int64_t rows = program.rows && program.rows->size == Size::skv ? sizes.skv : sizes.sq;
  const std::int64_t workgroups = sizes.batch * program.head_groups() * ((rows + block_q - 1) / block_q);
  const std::int64_t x = std::min(workgroups, max_x);
  const std::int64_t y = x == 0 ? 1 : (workgroups + x - 1) / x;
  return {{std::uint32_t(x), std::uint32_t(y), 1}, program.threads(), program.footprint.shared_bytes};
}

int common_alignment(const Graph& graph, const DeviceTensors& tensors) {
  constexpr std::uint64_t kWidest = 16;
  const auto element = std::uint64_t(size_in_bytes(graph.info().dtype));
  const auto is_aligned = [&](const DeviceTensor& tensor) {
    const TensorLayout& layout = tensor.layout;
    bool aligned = tensor.address % kWidest == 0;
    for (std::size_t axis = 0; axis + 1 < layout.shape.size(); ++axis)  // a dimension of one takes no steps
      aligned = aligned &&
                (layout.shape[axis] <= 1 || std::uint64_t(layout.strides[axis]) * element % kWidest == 0);
    return aligned;
  };
  bool all = is_aligned(find_tensor(tensors, "o"));
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role != TensorRole::captured && tensor.role != TensorRole::constant)
      all = all && is_aligned(find_tensor(tensors, tensor.name));
  return int(all ? kWidest : element);
}

}  // namespace attnfuse
