#include "backends/hip/backend.h"

#include "backends/common/tile_writer.h"
#include "backends/hip/dialect.h"
#include "backends/hip/targets.h"
#include "runtime/hip.h"

namespace attnfuse::hip {
namespace {

class HipBackend : public Backend {
 public:
  std::string name() const override { return "hip"; }
  std::vector<Target> targets() const override { return hip::targets(); }

  Result<Source> emit(const TileProgram& program) const override {
    const HipDialect dialect;
    return Source{TileWriter(program, dialect).write(), program.name, "hip"};
  }

  Result<Binary> assemble(const Source& source, const Target& target) const override {
    return hip::assemble(source.text, source.entry, target);
  }

  int device_count() const override { return hip::device_count(); }
  Result<std::shared_ptr<Device>> open(int ordinal) const override { return hip::open(ordinal, hip::targets()); }
};

}  // namespace

const Backend& backend() {
  static const HipBackend instance;
  return instance;
}

}  // namespace attnfuse::hip
