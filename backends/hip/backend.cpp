#include "backends/hip/backend.h"

#include "backends/common/tile_writer.h"
#include "backends/hip/dialect.h"
#include "backends/hip/emulator/emulator.h"
#include "backends/hip/targets.h"
#include "runtime/hip.h"

namespace attnfuse::hip {
namespace {

Result<Source> emit_hip(const TileProgram& program) {
  const HipDialect dialect;
  return Source{TileWriter(program, dialect).write(), program.name, "hip"};
}

class HipBackend : public Backend {
 public:
  std::string name() const override { return "hip"; }
  std::vector<Target> targets() const override { return hip::targets(name()); }
  Result<Source> emit(const TileProgram& program) const override { return emit_hip(program); }
  Result<Binary> assemble(const Source& source, const Target& target) const override {
    return hip::assemble(source.text, source.entry, target);
  }
  std::string assembler() const override { return hip::assembler(); }
  int device_count() const override { return hip::device_count(); }
  Result<std::shared_ptr<Device>> open(int ordinal) const override { return hip::open(ordinal, targets()); }
};

class EmulatedBackend : public Backend {
 public:
  std::string name() const override { return "hip-cpu"; }
  std::vector<Target> targets() const override { return hip::targets(name()); }
  Result<Source> emit(const TileProgram& program) const override { return emit_hip(program); }
  Result<Binary> assemble(const Source& source, const Target& target) const override {
    return compile_for_host(source.text, source.entry, target);
  }
  int device_count() const override { return 1; }
  Result<std::shared_ptr<Device>> open(int ordinal) const override {
    if (ordinal == 0) return make_emulator(targets());
    return Diagnostic{"device.none", "the HIP emulator is one device, number 0", {}, "use ordinal 0"};
  }
};

}  // namespace

const Backend& backend() {
  static const HipBackend instance;
  return instance;
}

const Backend& emulated_backend() {
  static const EmulatedBackend instance;
  return instance;
}

}  // namespace attnfuse::hip
