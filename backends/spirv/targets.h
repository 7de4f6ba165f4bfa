// The kinds of Vulkan device this backend writes for, as data.
#pragma once

#include <vector>

#include "ir/target.h"
#include "runtime/vulkan.h"

namespace attnfuse::spirv {

std::vector<Target> targets();

// The rows a device runs, best first. Targets name what a device must offer, so that one kernel serves them
// all.
std::vector<Target> targets_of(const vulkan::DeviceFacts& facts);

// Whether the target's warps are the device's subgroups. Elsewhere a warp is any 32 threads with consecutive
// numbers, and only four neighbours ever exchange registers.
bool warps_are_subgroups(const Target& target);

// The matrix unit of this target, or null.
const MatrixUnit* matrix_leaf(const Target& target);

// Bytes of shared memory that kernels use beside their tiles: threads * 4 where registers cannot be
// exchanged.
inline constexpr int kExchangeBytes = 1024;

}  // namespace attnfuse::spirv
