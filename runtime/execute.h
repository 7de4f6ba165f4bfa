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
class KernelCache;

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
std::vector<std::byte> argument_block(const TileProgram& program, const DeviceTensors& tensors,
                                      const Sizes& sizes);
// Grid for one call; n = 0 workgroups (sq, batch = 0) means: do not launch.
Launch launch_shape(const TileProgram& program, const Sizes& sizes);
// 16 when every pointer and stride of q, k, v, o allows 16-byte access, else the element size.
int common_alignment(const Graph& graph, const DeviceTensors& tensors);

// Everything at once: checks the inputs, uploads them, compiles for the device (with the cache) and their
// alignment, launches, and downloads "o" and "lse", contiguous. Nothing is launched when a diagnostic is
// returned.
Result<HostTensors> run(const Graph& graph, Device& device, const HostTensors& inputs);
Result<HostTensors> run(const Graph& graph, const Backend& backend, Device& device, const HostTensors& inputs,
                        KernelCache& cache);

}  // namespace attnfuse
