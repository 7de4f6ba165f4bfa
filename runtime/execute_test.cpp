#include "runtime/execute.h"

#include <doctest/doctest.h>

#include <cstring>

#include "runtime/test_device.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

template <class T>
T read_at(const std::vector<std::byte>& block, std::size_t offset) {
  T value;
  std::memcpy(&value, block.data() + offset, sizeof value);
  return value;
}

DeviceTensors contiguous_tensors() {
  return {{"q", {TensorLayout::contiguous(DType::f16, {2, 4, 3, 8}), 0x1000}},
          {"k", {TensorLayout::contiguous(DType::f16, {2, 2, 5, 8}), 0x2000}},
          {"v", {TensorLayout::contiguous(DType::f16, {2, 2, 5, 16}), 0x3000}},
          {"o", {TensorLayout::contiguous(DType::f16, {2, 4, 3, 16}), 0x4000}},
          {"lse", {TensorLayout::contiguous(DType::f32, {2, 4, 3}), 0x5004}}};
}

}  // namespace

TEST_CASE("the argument block holds each field at its offset, in the width of its kind") {
  TileProgram program;
  using Kind = ParamField::Kind;
  program.params = {{Kind::pointer, "k_ptr", "k", 0, Size::sq, 0},
                    {Kind::stride, "k_stride_h", "k", 1, Size::sq, 8},
                    {Kind::size, "batch", "", 0, Size::batch, 16},
                    {Kind::size, "skv", "", 0, Size::skv, 20},
                    {Kind::pointer, "lse_ptr", "lse", 0, Size::sq, 24}};
  program.param_bytes = 32;
  const auto device = make_gpu_device(std::make_shared<FakeDriver>(), {Target{}});
  const auto block = argument_block(program, contiguous_tensors(), {2, 3, 5}, *device).value();
  REQUIRE(block.size() == 32);
  CHECK(read_at<std::uint64_t>(block, 0) == 0x2000);
  CHECK(read_at<std::int64_t>(block, 8) == 40);
  CHECK(read_at<std::int32_t>(block, 16) == 2);
  CHECK(read_at<std::int32_t>(block, 20) == 5);
  CHECK(read_at<std::uint64_t>(block, 24) == 0x5004);
  program.params.push_back({Kind::pointer, "bias_ptr", "bias", 0, Size::sq, 0});
  CHECK_THROWS_AS((void)argument_block(program, contiguous_tensors(), {2, 3, 5}, *device), InternalError);
}

TEST_CASE("a launch has one workgroup per query tile and head, folded where the grid is too narrow") {
  TileProgram program;
  program.info.heads = 4;
  program.schedule.block_q = 64;
  program.target.max_grid_x = 100;
  const auto grid = [&](Sizes sizes) {
    const Launch launch = launch_shape(program, sizes);
    CHECK(launch.threads == program.threads());
    return std::pair(launch.grid[0], launch.grid[1]);
  };
  using Grid = std::pair<std::uint32_t, std::uint32_t>;
  CHECK(grid({2, 64, 9}) == Grid{8, 1});
  CHECK(grid({2, 65, 9}) == Grid{16, 1});
  CHECK(grid({25, 1, 9}) == Grid{100, 1});
  CHECK(grid({26, 1, 9}) == Grid{100, 2});
  CHECK(grid({0, 65, 9}).first == 0);
  CHECK(grid({2, 0, 9}).first == 0);
  program.target.max_grid_x = 2147483647;
  CHECK(grid({65536, 2147483647, 1}).second == 4097);
}

TEST_CASE("a ragged program gets workgroups for any division of its rows into sequences") {
  TileProgram program;
  program.info.heads = 4;
  program.info.storage.ragged = true;
  program.schedule.block_q = 64;
  program.target.max_grid_x = 1000;
  CHECK(launch_shape(program, {3, 200, 9, 200, 9}).grid[0] == 4 * (3 + 3));
  CHECK(launch_shape(program, {3, 1, 9, 1, 9}).grid[0] == 4 * 3);
  CHECK(launch_shape(program, {3, 0, 9, 0, 9}).grid[0] == 0);
  CHECK(launch_shape(program, {0, 5, 9, 5, 9}).grid[0] == 0);
}

TEST_CASE("a program with roles gets no more workgroups than run side by side") {
  TileProgram program;
  program.info.heads = 4;
  program.schedule.block_q = 64;
  program.schedule.groups = 2;
  program.target.max_grid_x = 1000;
  program.target.compute_units = 10;
  CHECK(launch_shape(program, {2, 64, 9}).grid[0] == 8);
  CHECK(launch_shape(program, {3, 64, 9}).grid[0] == 10);
  CHECK(launch_shape(program, {3, 64, 9}).grid[1] == 1);
  CHECK(launch_shape(program, {3, 0, 9}).grid[0] == 0);
}
