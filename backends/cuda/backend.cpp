#include "backends/cuda/backend.h"

#include "backends/common/tile_writer.h"
#include "backends/cuda/dialect.h"
#include "backends/cuda/hopper_dialect.h"
#include "backends/cuda/targets.h"
#include "runtime/cuda.h"

namespace attnfuse::cuda {
namespace {

class CudaBackend : public Backend {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<Target> targets() const override { return cuda::targets(); }

  Result<Source> emit(const TileProgram& program) const override {
    if (program.schedule.groups > 0)
      return Source{TileWriter(program, HopperDialect{}).write(), program.name, "cu"};
    return Source{TileWriter(program, CudaDialect{}).write(), program.name, "cu"};
  }

  Result<Binary> assemble(const Source& source, const Target& target) const override {
    return cuda::assemble(source.text, source.entry, target);
  }

  std::string assembler() const override { return cuda::assembler(); }
  int device_count() const override { return cuda::device_count(); }
  Result<std::shared_ptr<Device>> open(int ordinal) const override {
    return cuda::open(ordinal, cuda::targets());
  }
  Result<std::shared_ptr<Device>> open_current() const override {
    return cuda::open_current(cuda::targets());
  }
};

}  // namespace

const Backend& backend() {
  static const CudaBackend instance;
  return instance;
}

}  // namespace attnfuse::cuda
