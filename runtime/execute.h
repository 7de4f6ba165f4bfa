// From a graph and host tensors to outputs in one call, and the shape of a launch.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tile.h"
#include "runtime/argument_block.h"
#include "runtime/device.h"
#include "runtime/tensor.h"

namespace attnfuse {

class KernelCache;
struct Machine;

// A tensor in device memory.
struct DeviceTensor {
  TensorLayout layout;
  std::uint64_t address = 0;
};
using DeviceTensors = std::map<std::string, DeviceTensor>;
BoundTensor bound(const DeviceTensor& tensor);

// Grid for one call; n = 0 workgroups (sq, batch = 0) means: do not launch.
Launch launch_shape(const TileProgram& program, const Sizes& sizes);

// The argument block for one launch of a program by itself. `counter`: see ParamField::Kind::counter.
Result<std::vector<std::byte>> argument_block(const TileProgram& program, const DeviceTensors& tensors,
                                              const Sizes& sizes, Device& device, std::uint64_t counter = 0);

// Everything at once: checks the inputs, uploads them, compiles (with the cache), launches, and downloads
// "o", "lse" and other outputs, contiguous. Nothing is launched when a diagnostic is returned.
Result<HostTensors> run(const Graph& graph, const Machine& machine, const HostTensors& inputs);
Result<HostTensors> run(const Graph& graph, const Machine& machine, const HostTensors& inputs,
                        KernelCache& cache);

}  // namespace attnfuse
