#include "backends/spirv/dialect.h"

#include <fmt/format.h>

#include "backends/common/c_dialect.h"
#include "backends/common/prelude.h"
#include "backends/common/tile_writer.h"
#include "backends/spirv/prelude.h"

namespace attnfuse::spirv {

void GlslDialect::begin(TileWriter& writer) const {
  const TileProgram& program = writer.program();
  SourceWriter& out = writer.out();
  out.line("#version 460");
  header_comment(writer);
  out.blank();
  out.raw(prelude_types());
  if (program.unit.opaque) {
    out.line("#extension GL_KHR_memory_scope_semantics : require");
    out.line("#extension GL_KHR_cooperative_matrix : require");
  }
  out.raw(common_prelude());
  out.raw(prelude());
  out.raw(tanh_prelude());
  out.blank();
  for (const TensorInfo& tensor : program.expressions.tensors())
    if (tensor.role == TensorRole::constant) constant_table(out, tensor.name, tensor.values);
  out.line(fmt::format("layout(local_size_x = {}) in;", program.threads()));
  out.open("layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Arguments");
  argument_fields(writer, "uint64_t", "int64_t");
  out.close(";");
  out.comment("the address of the argument block");
  out.line("layout(push_constant) uniform Push { Arguments args; };");
  for (const Tile& tile : program.tiles) {
    if (tile.space != Space::shared) continue;
    const auto& layout = std::get<SharedLayout>(tile.layout);
    out.line(fmt::format("shared {} {}[{}];  // {} x {}", type(tile.type), tile.name, layout.stride * (layout.column_major ? tile.cols : tile.rows), tile.rows, tile.cols));
  }
  out.line("shared int has_nonfinite;");
  out.blank();
  out.open("void main()");
  // Lanes that exchange values are neighbours by definition of this index.
  out.line("const int thread = int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID);");
  out.line(fmt::format("const int lane = thread % {0}, warp = thread / {0};", program.target.warp_size));
  out.line("const int block = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);");
  out.line("if (thread == 0) has_nonfinite = 0;");
}

void GlslDialect::end(TileWriter& writer) const { writer.out().close(); }

std::string GlslDialect::type(DType dtype) const {
  switch (dtype) {
    case DType::f16: return "af_f16";
    case DType::bf16: return "af_bf16";
    case DType::f32: return "float";
    case DType::i32: return "int";
    case DType::boolean: return "bool";
  }
  return "";
}

std::string GlslDialect::int64(std::string_view value) const { return fmt::format("af_i64({})", value); }

void GlslDialect::constant_table(SourceWriter& out, const std::string& name, const std::vector<double>& values) const {
  out.line(fmt::format("const float {}[{}] = float[](", name, values.size()));
  std::string line = " ";
  for (std::size_t k = 0; k < values.size(); ++k) {
    line += " " + literal(values[k]) + (k + 1 < values.size() ? "," : ");");
    if (line.size() > 90 || k + 1 == values.size()) {
      out.line(line);
      line = " ";
    }
  }
}

namespace {
std::string reference(const std::string& tensor, DType dtype, const std::string& offset) {
  return fmt::format("af_ref_{}(args.{}_ptr + uint64_t(({}) * {})).v", name(dtype), tensor, offset, size_in_bytes(dtype));
}
}  // namespace

std::string GlslDialect::load_global(const std::string& tensor, DType dtype, const std::string& offset) const {
  const std::string element = reference(tensor, dtype, offset);
  switch (dtype) {
    case DType::f16:
    case DType::bf16: return fmt::format("af_from_{}({})", name(dtype), element);
    case DType::f32:
    case DType::i32: return element;
    case DType::boolean: return fmt::format("(int({}) != 0)", element);
  }
  return "";
}

void GlslDialect::store_global(SourceWriter& out, const std::string& tensor, DType dtype, const std::string& offset, const std::string& value) const {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  out.line(fmt::format("{} = {};", reference(tensor, dtype, offset), narrow ? fmt::format("af_to_{}({})", name(dtype), value) : value));
}

std::string GlslDialect::exchange(const std::string& value, int distance) const {
  return fmt::format("subgroupShuffleXor({}, {})", value, distance);
}

}  // namespace attnfuse::spirv
