// A Device that runs kernels on the CPU. Every access stays inside its buffer or fails; shared memory is
// written before it is read (it starts as NaN); lanes meet where they must; any order of lanes gives the same
// answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/emulator/workgroup.h"
#include "runtime/device.h"

namespace attnfuse::emulator {

// What it pretends to be.
struct Description {
  std::string name;             // "HIP emulator"
  std::vector<Target> targets;  // best first
  std::unique_ptr<Machine> (*machine)(Workgroup& group, const Target& target, const Launch& launch);
  Result<EncodedTensorMap> (*encode)(const TensorMap& map) = nullptr;  // where there is a copy engine
};

std::shared_ptr<Device> make_device(Description description, Options options);

}  // namespace attnfuse::emulator
