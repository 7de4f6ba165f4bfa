#include "conformance/plugin_example/dialect.h"

#include <fmt/format.h>

#include "backends/common/tile_writer.h"

namespace cpp_backend {
namespace {

// What AttnFuse's own prelude builds on, and what it leaves to the language.
constexpr std::string_view kTypes = R"(#include <math.h>
#include <string.h>
#define AF_FN static inline
typedef unsigned int af_u32;
typedef unsigned long long af_u64;
typedef long long af_i64;
typedef unsigned short af_f16;   // bits
typedef unsigned short af_bf16;  // bits
AF_FN af_u32 af_bits(float x) { af_u32 bits; memcpy(&bits, &x, 4); return bits; }
AF_FN float af_from_bits(af_u32 bits) { float x; memcpy(&x, &bits, 4); return x; }
#define af_fma fmaf
#define af_rint rintf
)";

constexpr std::string_view kFunctions = R"(#define af_abs fabsf
#define af_min fminf
#define af_max fmaxf
#define af_floor floorf
#define af_exp expf
#define af_exp2 exp2f
#define af_log logf
#define af_log2 log2f
#define af_sqrt sqrtf
#define af_tanh tanhf
AF_FN float af_rsqrt(float x) { return 1.0f / sqrtf(x); }
AF_FN float af_from_f16(af_f16 x) {
  const af_u32 sign = af_u32(x & 0x8000u) << 16, rest = x & 0x7fffu;
  if (rest >= 0x7c00u) return af_from_bits(sign | 0x7f800000u | rest << 13);
  return af_from_bits(sign | af_bits(af_from_bits(rest << 13) * 0x1p112f));
}
// To nearest, ties to even.
AF_FN af_f16 af_to_f16(float x) {
  const af_u32 bits = af_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return af_f16(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return af_f16(sign | 0x7c00u);
  if (rest < 0x38800000u) return af_f16(sign | (af_bits(af_from_bits(rest) + 0.5f) - 0x3f000000u));
  return af_f16(sign | ((rest + 0xfffu + (rest >> 13 & 1u)) >> 13) - 0x1c000u);
}
AF_FN float af_from_bf16(af_bf16 x) { return af_from_bits(af_u32(x) << 16); }
AF_FN af_bf16 af_to_bf16(float x) {
  const af_u32 bits = af_bits(x);
  return af_bf16(x == x ? (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16 : bits >> 16 | 0x40u);
}
AF_FN float af_to_f32(float x) { return x; }
AF_FN bool af_is_finite_f16(af_f16 x) { return (x & 0x7c00u) != 0x7c00u; }
AF_FN bool af_is_finite_bf16(af_bf16 x) { return (x & 0x7f80u) != 0x7f80u; }
AF_FN af_u32 af_pack_f16(float lo, float hi) { return af_u32(af_to_f16(lo)) | af_u32(af_to_f16(hi)) << 16; }
AF_FN af_u32 af_pack_bf16(float lo, float hi) { return af_u32(af_to_bf16(lo)) | af_u32(af_to_bf16(hi)) << 16; }
// Sixteen bytes of elements at a time.
AF_FN void af_load_chunk_f16(float* x, const af_f16* from) { for (int e = 0; e < 8; ++e) x[e] = af_from_f16(from[e]); }
AF_FN void af_load_chunk_bf16(float* x, const af_bf16* from) { for (int e = 0; e < 8; ++e) x[e] = af_from_bf16(from[e]); }
AF_FN void af_load_chunk_f32(float* x, const float* from) { for (int e = 0; e < 4; ++e) x[e] = from[e]; }
AF_FN void af_store_chunk_f16(af_f16* to, const float* x) { for (int e = 0; e < 8; ++e) to[e] = af_to_f16(x[e]); }
AF_FN void af_store_chunk_bf16(af_bf16* to, const float* x) { for (int e = 0; e < 8; ++e) to[e] = af_to_bf16(x[e]); }
AF_FN void af_store_chunk_f32(float* to, const float* x) { for (int e = 0; e < 4; ++e) to[e] = x[e]; }
)";

}  // namespace

// A kernel is a function of the argument block and the workgroup's number. Its one thread is thread 0, and
// what threads would share lies on its stack.
void CppDialect::begin(attnfuse::TileWriter& writer) const {
  begin_file(writer, kTypes, kFunctions);
  const attnfuse::TileProgram& program = writer.program();
  attnfuse::SourceWriter& out = writer.out();
  out.open(fmt::format("extern \"C\" void {}(const void* arguments, int block)", program.name));
  out.line("const Arguments& args = *static_cast<const Arguments*>(arguments);");
  out.line(fmt::format("alignas(16) unsigned char shared_memory[{}];", program.footprint.shared_bytes));
  shared_tiles(writer, "shared_memory");
  out.line("const int thread = 0, lane = 0, warp = 0;");
  out.line("*has_nonfinite = 0;");
}

void CppDialect::end(attnfuse::TileWriter& writer) const { writer.out().close(); }

}  // namespace cpp_backend
