// The Vulkan driver: devices that run SPIR-V compute kernels. Loads libvulkan at run time, so that one
// program serves machines with and without it. Used by backends/spirv.
//
// A kernel receives one push constant, the 64-bit device address of its argument block. Everything else
// follows from addresses in the block: no descriptors.
#pragma once

#include <memory>
#include <vector>

#include "ir/types.h"
#include "runtime/device.h"

namespace attnfuse::vulkan {

// A shape of the subgroup's matrix product that the device reports: f32 accumulators.
struct MatrixShape {
  DType operands;
  int m, n, k;
  bool operator==(const MatrixShape&) const = default;
};

// What a device says about itself, as far as the choice of a target asks.
struct DeviceFacts {
  std::string name;
  bool is_cpu = false;
  int subgroup_size = 32, min_subgroup_size = 32, max_subgroup_size = 32;
  bool subgroup_shuffle = false;
  int shared_bytes = 0;
  int max_threads = 0;
  int max_grid_x = 0;
  std::vector<MatrixShape> matrices;

  bool has_subgroup_size(int size) const { return min_subgroup_size <= size && size <= max_subgroup_size; }
};

// The targets a device with these facts runs, best first.
using TargetsOf = std::vector<Target> (*)(const DeviceFacts& facts);

// Devices that have what every kernel needs. GPUs stand before CPUs; ATTNFUSE_VULKAN_DEVICE (part of a name)
// moves the devices it names to the front.
int device_count();
// "backend.compiled-out" (no Vulkan headers at build time), "driver.missing" (no libvulkan), "device.none"
// (no device, or none with the needed features: the message lists them).
Result<std::shared_ptr<Device>> open(int ordinal, TargetsOf targets_of);
// Facts of all usable devices, in order.
std::vector<DeviceFacts> device_facts();

}  // namespace attnfuse::vulkan
