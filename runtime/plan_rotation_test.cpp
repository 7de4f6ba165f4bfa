// Plans with pre-passes, executed where a machine is: each choice gives what one kernel gives.
#include "runtime/plan_rotation.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "frontend/parser.h"
#include "runtime/cache.h"
#include "runtime/executable.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

namespace attnfuse {
namespace {

constexpr const char* kProgram =
    "attention t { heads 4 kv_heads 2 head_dim 32 dtype f16 query rope(theta = 100) key rope(theta = 100) "
    "mask causal }";

Graph parsed() {
  auto graph = parse_one(kProgram);
  REQUIRE(graph.ok());
  return std::move(graph).value();
}

// Tensors of one call in device memory, and a workspace that outlives launches.
class Memory {
 public:
  explicit Memory(Device& device) : device_(device) {}
  void add(const std::string& name, const HostTensor& tensor) {
    buffers_[name] = *device_.allocate(tensor.bytes.size());
    REQUIRE(device_.upload(*buffers_[name], 0, tensor.bytes).ok());
    tensors[name] = {tensor.layout, buffers_[name]->address()};
  }
  std::vector<double> values(const std::string& name) {
    HostTensor tensor = HostTensor::zeros(tensors.at(name).layout);
    REQUIRE(device_.download(*buffers_.at(name), 0, tensor.bytes).ok());
    std::vector<double> result;
    const auto size = std::size_t(size_in_bytes(tensor.layout.dtype));
    for (std::size_t n = 0; n < tensor.bytes.size(); n += size)
      result.push_back(load_element(tensor.layout.dtype, &tensor.bytes[n]));
    return result;
  }
  LaunchSite site(std::size_t bytes) {
    if (bytes > 0 && !workspace_) workspace_ = *device_.allocate(bytes);
    return bytes > 0 ? LaunchSite{nullptr, workspace_->address(), workspace_->size()} : LaunchSite{};
  }
  DeviceTensors tensors;

 private:
  Device& device_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;
  std::shared_ptr<Buffer> workspace_;
};

HostTensors call_tensors(const Graph& graph, const Sizes& sizes) {
  const ProgramInfo& info = graph.info();
  HostTensors tensors = testing::inputs_for(info, sizes);
  tensors["o"] = HostTensor::zeros(
      TensorLayout::contiguous(info.dtype, {sizes.batch, info.heads, sizes.sq, info.v_head_dim}));
  tensors["lse"] =
      HostTensor::zeros(TensorLayout::contiguous(DType::f32, {sizes.batch, info.heads, sizes.sq}));
  return tensors;
}

std::optional<Machine> cpu_machine() {
  auto machine = open_machine("hip-cpu:gfx1030");
  if (!machine) {
    MESSAGE("SKIPPED: " << render(machine.errors()));
    return {};
  }
  return std::move(machine).value();
}

Result<std::vector<double>> launched(const Graph& graph, const Machine& machine, Memory& memory,
                                     const Sizes& sizes, Rotation rotation,
                                     TransformRows keys = TransformRows::all) {
  CompileOptions options;
  options.rotation = rotation;
  auto made = Executable::prepare(graph, machine,
                                  rotation_planner(graph, machine, options, KernelCache::standard(), keys));
  if (!made) return made.errors();
  const auto bound = (*made)->bind(memory.tensors);
  const auto bytes = (*made)->workspace_bytes(sizes);
  REQUIRE(bound.ok());
  REQUIRE(bytes.ok());
  if (auto status = (*made)->launch(*bound, memory.site(*bytes)); !status) return status.errors();
  if (auto status = machine.device->synchronize(); !status) return status.errors();
  return memory.values("o");
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t n = 0; n < a.size() && n < b.size(); ++n) worst = std::max(worst, std::abs(a[n] - b[n]));
  return worst;
}

}  // namespace

TEST_CASE("every choice gives the reference's answer, and a cache of transformed keys takes the newest") {
  const auto machine = cpu_machine();
  if (!machine) return;
  const Graph graph = parsed();
  const Sizes sizes{1, 3, 40};
  const HostTensors tensors = call_tensors(graph, sizes);
  Memory memory(*machine->device);
  for (const auto& [name, tensor] : tensors) memory.add(name, tensor);
  HostTensors inputs = tensors;
  inputs.erase("o");
  inputs.erase("lse");
  const auto wanted = reference(graph, inputs);
  REQUIRE(wanted.ok());
  for (Rotation rotation : {Rotation::fuse, Rotation::both}) {
    const auto got = launched(graph, *machine, memory, sizes, rotation);
    if (!got && got.errors()[0].code == "toolkit.missing") {
      MESSAGE("SKIPPED: " << render(got.errors()));
      return;
    }
    REQUIRE_MESSAGE(got.ok(), render(got.errors()));
    INFO(name(rotation));
    CHECK(difference(*got, wanted->o) < 3e-3);
  }
  // The workspace holds all keys transformed: other old keys in the call no longer count, the newest do.
  HostTensor keys = tensors.at("k");
  for (std::int64_t j = 0; j < 40; ++j)
    for (std::int64_t g = 0; g < 2; ++g)
      for (std::int64_t d = 0; d < 32 && j < 37; ++d) keys.set(std::array<std::int64_t, 4>{0, g, j, d}, 1000);
  memory.add("k", keys);
  const auto cached = launched(graph, *machine, memory, sizes, Rotation::both, TransformRows::newest);
  REQUIRE(cached.ok());
  CHECK(difference(*cached, wanted->o) < 3e-3);
}

TEST_CASE("a pre-pass has a workgroup for every tile of rows and group of heads") {
  Target target;
  target.warp_size = 32;
  target.units = {MatrixUnit{}};
  const auto optimized = run_graph_passes(parsed());
  REQUIRE(optimized.ok());
  const auto grid = [&](TensorRole role, TransformRows rows, const Sizes& sizes) {
    Schedule schedule = transform_schedule(optimized->info(), role, target, 16);
    schedule.block_q = 16;
    const auto program = lower_transform(*optimized, role, target, schedule, rows);
    REQUIRE(program.ok());
    const Launch launch = launch_shape(*program, sizes);
    return launch.grid[0] * launch.grid[1];
  };
  // Four query heads are one group, two key heads another.
  CHECK(grid(TensorRole::query, TransformRows::all, {3, 33, 100}) == 3 * 3);
  CHECK(grid(TensorRole::key, TransformRows::all, {3, 33, 100}) == 3 * 7);
  CHECK(grid(TensorRole::key, TransformRows::newest, {3, 33, 100}) == 3 * 3);
  CHECK(grid(TensorRole::key, TransformRows::all, {3, 33, 0}) == 0);
}

TEST_CASE("an automatic plan differs with the sizes of the call") {
  const auto machine = cpu_machine();
  if (!machine) return;
  const Graph graph = parsed();
  const auto planner = rotation_planner(graph, *machine, {}, KernelCache::standard());
  CHECK(planner->variant({8, 8192, 8192}) != planner->variant({1, 1, 8}));
  CHECK(planner->variant({8, 8192, 8192}) == planner->variant({8, 8192, 8190}));
  CompileOptions fused;
  fused.rotation = Rotation::fuse;
  const auto fixed = rotation_planner(graph, *machine, fused, KernelCache::standard());
  CHECK(fixed->variant({8, 8192, 8192}) == fixed->variant({1, 2, 8}));
  CHECK(fixed->variant({8, 8192, 8192}) != fixed->variant({8, 1, 8192}));  // heads of a group are rows
}

}  // namespace attnfuse
