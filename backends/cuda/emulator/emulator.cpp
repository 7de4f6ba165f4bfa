#include "backends/cuda/emulator/emulator.h"

#include "backends/cuda/emulator/host_source.h"
#include "backends/cuda/emulator/multiprocessor.h"
#include "backends/cuda/emulator/tensor_map.h"
#include "backends/emulator/compile.h"
#include "backends/emulator/device.h"

namespace attnfuse::cuda {

Result<Binary> compile_for_host(const std::string& source, const std::string& entry, const Target& target) {
  return emulator::compile_for_host(host_source(source, entry, target.shared_bytes), entry, target);
}

std::shared_ptr<Device> make_emulator(std::vector<Target> targets, emulator::Options options) {
  return emulator::make_device({"CUDA emulator", std::move(targets), &make_multiprocessor, &encode_for_host},
                               options);
}

}  // namespace attnfuse::cuda
