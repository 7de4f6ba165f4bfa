#include "backends/spirv/backend.h"

#include "backends/common/tile_writer.h"
#include "backends/spirv/dialect.h"
#include "backends/spirv/glslang.h"
#include "backends/spirv/targets.h"

namespace attnfuse::spirv {
namespace {

class SpirvBackend : public Backend {
 public:
  std::string name() const override { return "spirv"; }
  std::vector<Target> targets() const override { return spirv::targets(); }

  Result<Source> emit(const TileProgram& program) const override {
    const GlslDialect plain(program);
    const CooperativeDialect cooperative(program);
    const Dialect& dialect = program.unit.opaque ? static_cast<const Dialect&>(cooperative) : plain;
    return Source{TileWriter(program, dialect).write(), program.name, "comp"};
  }

  Result<Binary> assemble(const Source& source, const Target& target) const override {
    const auto compiled = compile_glsl(source.text);
    if (!compiled) return compiled.errors();
    Binary binary{target.name, "spirv", source.entry, {}, {}, compiled->log};
    const auto bytes = std::as_bytes(std::span(compiled->words));
    binary.bytes.assign(bytes.begin(), bytes.end());
    return binary;
  }

  std::string assembler() const override { return glslang_version(); }
  int device_count() const override { return vulkan::device_count(); }
  Result<std::shared_ptr<Device>> open(int ordinal) const override {
    return vulkan::open(ordinal, targets_of);
  }
};

}  // namespace

const Backend& backend() {
  static const SpirvBackend instance;
  return instance;
}

}  // namespace attnfuse::spirv
