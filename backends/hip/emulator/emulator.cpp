#include "backends/hip/emulator/emulator.h"

#include "backends/emulator/compile.h"
#include "backends/emulator/device.h"
#include "backends/hip/emulator/builtins.h"
#include "backends/hip/emulator/wave.h"

namespace attnfuse::hip {

Result<Binary> compile_for_host(const std::string& source, const std::string& entry, const Target& target) {
  return emulator::compile_for_host(host_source(source, entry), entry, target);
}

std::shared_ptr<Device> make_emulator(std::vector<Target> targets, emulator::Options options) {
  const auto machine = [](emulator::Workgroup& group, const Target& target, const Launch&) {
    return make_machine(group, target);
  };
  return emulator::make_device({"HIP emulator", std::move(targets), machine, nullptr}, options);
}

}  // namespace attnfuse::hip
