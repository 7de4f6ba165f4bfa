#include "backends/cuda/backend.h"
#include "backends/cuda/emulator/emulator.h"
#include "backends/cuda/targets.h"

namespace attnfuse::cuda {
namespace {

class EmulatedBackend : public Backend {
 public:
  std::string name() const override { return "cuda-cpu"; }
  std::vector<Target> targets() const override { return emulated_targets(name()); }
  Result<Source> emit(const TileProgram& program) const override { return backend().emit(program); }
  Result<Binary> assemble(const Source& source, const Target& target) const override {
    return compile_for_host(source.text, source.entry, target);
  }
  int device_count() const override { return 1; }
  Result<std::shared_ptr<Device>> open(int ordinal) const override {
    if (ordinal == 0) return make_emulator(targets());
    return Diagnostic{"device.none", "the CUDA emulator is one device, number 0", {}, "use ordinal 0"};
  }
};

}  // namespace

const Backend& emulated_backend() {
  static const EmulatedBackend instance;
  return instance;
}

// One architecture for each schedule; few multiprocessors, so that a persistent workgroup has several tiles.
std::vector<Target> emulated_targets(const std::string& backend) {
  std::vector<Target> result;
  for (Target target : targets())
    if (target.arch == "sm_80" || target.arch == "sm_90a") {
      target.name = backend + ":" + target.arch;
      target.backend = backend;
      target.compute_units = 3;
      result.push_back(std::move(target));
    }
  return result;
}

}  // namespace attnfuse::cuda
