#include "backends/spirv/dialect.h"

#include <fmt/format.h>

#include "backends/common/c_dialect.h"
#include "backends/common/prelude.h"
#include "backends/common/tile_writer.h"
#include "backends/spirv/prelude.h"
#include "backends/spirv/targets.h"

namespace attnfuse::spirv {
namespace {

constexpr std::string_view kExtensions[] = {
    "GL_EXT_buffer_reference",  // tensors by address
    "GL_EXT_shader_explicit_arithmetic_types",
    "GL_EXT_shader_8bit_storage",
    "GL_EXT_shader_16bit_storage",
    "GL_EXT_control_flow_attributes",  // [[unroll]]
    "GL_KHR_memory_scope_semantics",   // controlBarrier
    "GL_EXT_spirv_intrinsics",         // kKeepNan
};

// SignedZeroInfNanPreserve of f32: compilers may take `x < 1 ? 1 : x` for a maximum, which loses NaN,
// otherwise.
constexpr std::string_view kKeepNan = "spirv_execution_mode(capabilities = [4466], 4461, 32);";

bool is_output(const TileProgram& program, const std::string& tensor) {
  for (const OutputInfo& output : program.outputs)
    if (output.name == tensor) return true;
  return false;
}

int shared_elements(const Tile& tile) { return shared_bytes(tile) / size_in_bytes(tile.type); }

}  // namespace

GlslDialect::GlslDialect(const TileProgram& program)
    : program_(program), warps_are_subgroups_(warps_are_subgroups(program.target)) {}

void GlslDialect::extensions(SourceWriter& out) const {
  out.line("#version 460");
  const auto require = [&](std::string_view name) { out.line(fmt::format("#extension {} : require", name)); };
  for (std::string_view name : kExtensions) require(name);
  if (program_.target.lane_exchange) {
    require("GL_KHR_shader_subgroup_basic");
    require("GL_KHR_shader_subgroup_shuffle");
  }
  if (program_.unit.opaque) require("GL_KHR_cooperative_matrix");
}

// The block's fields lie at their natural offsets, as every backend's do.
void GlslDialect::argument_block(TileWriter& writer) const {
  SourceWriter& out = writer.out();
  out.open("struct Arguments");
  argument_fields(writer, "af_u64", "af_i64");
  out.close(";");
  out.line(
      "layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer ArgumentBlock { "
      "Arguments values; };");
  out.line("layout(push_constant) uniform PushConstants { ArgumentBlock argument_block; };");
}

void GlslDialect::begin(TileWriter& writer) const {
  SourceWriter& out = writer.out();
  header_comment(writer);
  extensions(out);
  out.line(fmt::format("layout(local_size_x = {}) in;", program_.threads()));
  out.line(kKeepNan);
  out.blank();
  out.raw(prelude_types());
  out.raw(common_prelude());
  out.raw(prelude_of(program_.expressions, roll()));
  out.raw(prelude());
  out.raw(tanh_prelude());
  out.blank();
  for (const TensorInfo& tensor : program_.expressions.tensors())
    if (tensor.role == TensorRole::constant) constant_table(out, tensor.name, tensor.values);
  argument_block(writer);
  out.blank();
  for (const Tile& tile : program_.tiles)
    if (tile.space == Space::shared)
      out.line(fmt::format("shared {} {}[{}];  // {} x {}", type(tile.type), tile.name, shared_elements(tile),
                           tile.rows, tile.cols));
  out.line("shared int has_nonfinite;");
  if (!program_.target.lane_exchange) {
    out.line(fmt::format("shared float af_exchanged[{}];", program_.threads()));
    out.open("float af_exchange(float x, int distance)");
    out.line("const int thread = int(gl_LocalInvocationIndex);");
    out.line("af_exchanged[thread] = x;");
    out.line("barrier();");
    out.line("const float y = af_exchanged[thread ^ distance];");
    out.line("barrier();");
    out.line("return y;");
    out.close();
  }
  out.blank();
  out.open("void main()");
  out.line("const Arguments args = argument_block.values;");
  out.line(program_.target.lane_exchange
               ? "const int thread = int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID);"
               : "const int thread = int(gl_LocalInvocationIndex);");
  const int width = program_.target.warp_size;
  out.line(fmt::format("const int lane = thread % {0}, warp = thread / {0};", width));
  out.line("const int block = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);");
  out.line("if (thread == 0) has_nonfinite = 0;");
}

void GlslDialect::end(TileWriter& writer) const { writer.out().close(); }

std::string GlslDialect::type(DType dtype) const {
  switch (dtype) {
    case DType::f16:
      return "af_f16";
    case DType::bf16:
      return "af_bf16";
    case DType::f32:
      return "float";
    case DType::i32:
      return "int";
    case DType::boolean:
      return "uint8_t";
  }
  return "";
}

std::string GlslDialect::int64(std::string_view value) const { return fmt::format("af_i64({})", value); }

void GlslDialect::constant_table(SourceWriter& out, const std::string& name,
                                 const std::vector<double>& values) const {
  out.line(fmt::format("const float {0}[{1}] = float[{1}](", name, values.size()));
  std::string line;
  for (std::size_t k = 0; k < values.size(); ++k) {
    line += literal(values[k]) + (k + 1 < values.size() ? ", " : ");");
    if (line.size() > 90 || k + 1 == values.size()) {
      out.line("  " + line);
      line.clear();
    }
  }
}

std::string GlslDialect::load_global(const std::string& tensor, DType dtype,
                                     const std::string& offset) const {
  return fmt::format("af_{}_{}(args.{}_ptr, {})", is_output(program_, tensor) ? "reload" : "load",
                     name(dtype), tensor, offset);
}

void GlslDialect::store_global(SourceWriter& out, const std::string& tensor, DType dtype,
                               const std::string& offset, const std::string& value) const {
  out.line(fmt::format("af_store_{}(args.{}_ptr, {}, {});", name(dtype), tensor, offset, value));
}

// Where warps are no subgroups, the threads of a warp meet with everyone.
std::string GlslDialect::barrier(Scope scope) const {
  return scope == Scope::warp && warps_are_subgroups_ ? "af_subgroup_barrier();" : "af_barrier();";
}

// Subgroups may be smaller than warps, which is why schedules let only four neighbours exchange.
int GlslDialect::exchange_width(const Target& target) const {
  constexpr int kNeighbours = 4;
  return !target.lane_exchange ? 1 : warps_are_subgroups_ ? target.warp_size : kNeighbours;
}

std::string GlslDialect::exchange(const std::string& value, int distance) const {
  return program_.target.lane_exchange ? fmt::format("subgroupShuffleXor({}, {}u)", value, distance)
                                       : fmt::format("af_exchange({}, {})", value, distance);
}

}  // namespace attnfuse::spirv
