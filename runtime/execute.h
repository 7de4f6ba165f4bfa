// From a graph and tensors to outputs: compile (with caches), bind, launch.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tile.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace attnfuse {

class Backend;

// A compiled kernel on a device.
struct Kernel {
  TileProgram program;
  Binary binary;
  std::shared_ptr<Module> module;
};

// A tensor in device memory.
struct DeviceTensor {
  TensorLayout layout;
  std::uint64_t address = 0;
};
using DeviceTensors = std::map<std::string, DeviceTensor>;

// The bytes of the argument block (ir/tile.h, ParamField) for one call.
std::vector<std::byte> argument_block(const TileProgram& program, const DeviceTensors& tensors, const Sizes& sizes);
// Grid for one call; n = 0 workgroups (sq, batch = 0) means: do not launch.
Launch launch_shape(const TileProgram& program, const Sizes& sizes);
// 16 when every pointer and stride of q, k, v, o allows 16-byte access, else the element size.
int common_alignment(const Graph& graph, const DeviceTensors& tensors);

}  // namespace attnfuse
