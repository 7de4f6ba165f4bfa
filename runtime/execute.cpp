#include "runtime/execute.h"

#include <algorithm>

namespace attnfuse {

BoundTensor bound(const DeviceTensor& tensor) {
  const TensorLayout& layout = tensor.layout;
  ATTNFUSE_CHECK(layout.shape.size() <= kMaxRank && layout.strides.size() == layout.shape.size(),
                 "a tensor that no program declares");
  BoundTensor result;
  result.address = tensor.address;
  result.dtype = layout.dtype;
  result.rank = int(layout.shape.size());
  std::ranges::copy(layout.shape, result.shape.begin());
  std::ranges::copy(layout.strides, result.strides.begin());
  return result;
}

Result<std::vector<std::byte>> argument_block(const TileProgram& program, const DeviceTensors& tensors,
                                              const Sizes& sizes, Device& device, std::uint64_t counter) {
  std::vector<std::string> names;
  std::vector<BoundTensor> in_order;
  for (const auto& [name, tensor] : tensors) {
    names.push_back(name);
    in_order.push_back(bound(tensor));
  }
  ArgumentBlock arguments(program, names);
  const auto block = arguments.fill(in_order, sizes, counter, device);
  if (!block) return block.errors();
  return std::vector<std::byte>(block->begin(), block->end());
}

Launch launch_shape(const TileProgram& program, const Sizes& sizes) {
  const std::int64_t block_q = program.schedule.block_q, max_x = program.target.max_grid_x;
  const bool of_keys = program.has_key_rows();
  const std::int64_t rows = of_keys ? sizes.skv : sizes.sq, total = of_keys ? sizes.total_k : sizes.total_q;
  std::int64_t tiles = sizes.batch * ((rows + block_q - 1) / block_q);
  if (program.info.storage.ragged)  // as the program counts them, see TileProgram
    tiles = total == 0 || sizes.batch == 0 ? 0 : total / block_q + sizes.batch;
  std::int64_t workgroups = tiles * program.head_groups();
  if (program.schedule.groups > 0)
    workgroups = std::min<std::int64_t>(workgroups, program.target.compute_units);
  const std::int64_t x = std::min(workgroups, max_x);
  const std::int64_t y = x == 0 ? 1 : (workgroups + x - 1) / x;
  Launch launch;
  launch.grid[0] = std::uint32_t(x);
  launch.grid[1] = std::uint32_t(y);
  launch.threads = program.threads();
  launch.shared_bytes = program.footprint.shared_bytes;
  return launch;
}

}  // namespace attnfuse
