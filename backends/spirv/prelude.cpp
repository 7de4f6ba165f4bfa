#include "backends/spirv/prelude.h"

namespace attnfuse::spirv {

std::string_view prelude_types() {
  return R"(#define AF_FN
#define af_u32 uint
#define af_u64 uint64_t
#define af_i64 int64_t
#define af_f16 float16_t
#define af_bf16 uint16_t  // bits
#define af_bits floatBitsToUint
#define af_from_bits uintBitsToFloat
#define af_fma fma
#define af_rint roundEven
)";
}

std::string_view prelude() {
  return R"(bool af_is_nan(float x) { return (af_bits(x) & 0x7fffffffu) > 0x7f800000u; }
float af_abs(float x) { return af_from_bits(af_bits(x) & 0x7fffffffu); }
float af_min(float a, float b) { return af_is_nan(a) ? b : b < a ? b : a; }
float af_max(float a, float b) { return af_is_nan(a) ? b : b > a ? b : a; }
float af_floor(float x) { return floor(x); }
float af_exp2(float x) { return af_is_nan(x) ? x : x < -126.0f ? 0.0f : exp2(x); }
// exp2 of x log2(e), with what the product lost.
float af_exp(float x) {
  if (!(x > -87.0f && x < 88.0f)) return af_exp2(x * 1.4426950f);
  float n = af_rint(x * 1.4426950f);
  float r = af_fma(n, -1.4286068e-6f, af_fma(n, -0.69314575f, x));
  return exp2(n) * exp2(r * 1.4426950f);
}
float af_log2(float x) { return af_is_nan(x) || af_bits(x) == 0x7f800000u ? x : x == 0.0f ? -af_infinity : x < 0.0f ? af_from_bits(0x7fc00000u) : log2(x); }
float af_log(float x) { return af_log2(x) * 0.69314718f; }
float af_sqrt(float x) { return sqrt(x); }
float af_rsqrt(float x) { return 1.0f / sqrt(x); }
float af_from_f16(af_f16 x) { return float(x); }
float af_from_bf16(af_bf16 x) { return af_from_bits(uint(x) << 16); }
af_f16 af_to_f16(float x) { return float16_t(x); }
af_bf16 af_to_bf16(float x) {  // to nearest even
  uint u = af_bits(x);
  return uint16_t(af_is_nan(x) ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float af_to_f32(float x) { return x; }
bool af_is_finite_f16(af_f16 x) { return (uint(float16BitsToUint16(x)) & 0x7c00u) != 0x7c00u; }
bool af_is_finite_bf16(af_bf16 x) { return (uint(x) & 0x7f80u) != 0x7f80u; }
// Elements of tensors: base address and offset in elements. What the kernel writes, other threads may read back.
layout(buffer_reference, std430, buffer_reference_align = 1) readonly buffer af_pointer_bool { uint8_t x; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer af_pointer_f16 { float16_t x; };
layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer af_pointer_bf16 { uint16_t x; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer af_pointer_f32 { float x; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer af_pointer_i32 { int x; };
layout(buffer_reference, std430, buffer_reference_align = 2) coherent buffer af_output_f16 { float16_t x; };
layout(buffer_reference, std430, buffer_reference_align = 2) coherent buffer af_output_bf16 { uint16_t x; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer af_output_f32 { float x; };
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer af_output_i32 { int x; };
float af_load_f16(af_u64 base, af_i64 at) { return float(af_pointer_f16(base + af_u64(at) * 2ul).x); }
float af_load_bf16(af_u64 base, af_i64 at) { return af_from_bf16(af_pointer_bf16(base + af_u64(at) * 2ul).x); }
float af_load_f32(af_u64 base, af_i64 at) { return af_pointer_f32(base + af_u64(at) * 4ul).x; }
int af_load_i32(af_u64 base, af_i64 at) { return af_pointer_i32(base + af_u64(at) * 4ul).x; }
bool af_load_bool(af_u64 base, af_i64 at) { return af_pointer_bool(base + af_u64(at)).x != uint8_t(0); }
float af_reload_f16(af_u64 base, af_i64 at) { return float(af_output_f16(base + af_u64(at) * 2ul).x); }
float af_reload_bf16(af_u64 base, af_i64 at) { return af_from_bf16(af_output_bf16(base + af_u64(at) * 2ul).x); }
float af_reload_f32(af_u64 base, af_i64 at) { return af_output_f32(base + af_u64(at) * 4ul).x; }
void af_store_f16(af_u64 base, af_i64 at, float x) { af_output_f16(base + af_u64(at) * 2ul).x = af_to_f16(x); }
void af_store_bf16(af_u64 base, af_i64 at, float x) { af_output_bf16(base + af_u64(at) * 2ul).x = af_to_bf16(x); }
void af_store_f32(af_u64 base, af_i64 at, float x) { af_output_f32(base + af_u64(at) * 4ul).x = x; }
void af_store_i32(af_u64 base, af_i64 at, int x) { af_output_i32(base + af_u64(at) * 4ul).x = x; }
// Chunks of 16 bytes at a byte offset: eight elements of 16 bits or four of 32.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer af_pointer_chunk { uvec4 x; };
uvec4 af_load_chunk(af_u64 base, af_i64 at) { return af_pointer_chunk(base + af_u64(at)).x; }
void af_unpack_chunk_f16(out float x[8], uvec4 chunk) {
  [[unroll]] for (int n = 0; n < 4; ++n) { f16vec2 pair = unpackFloat2x16(chunk[n]); x[2 * n] = float(pair.x); x[2 * n + 1] = float(pair.y); }
}
void af_unpack_chunk_bf16(out float x[8], uvec4 chunk) {
  [[unroll]] for (int n = 0; n < 4; ++n) { x[2 * n] = af_from_bits(chunk[n] << 16); x[2 * n + 1] = af_from_bits(chunk[n] & 0xffff0000u); }
}
void af_unpack_chunk_f32(out float x[4], uvec4 chunk) {
  [[unroll]] for (int n = 0; n < 4; ++n) x[n] = af_from_bits(chunk[n]);
}
uvec4 af_pack_chunk_f16(float x[8]) {
  uvec4 chunk;
  [[unroll]] for (int n = 0; n < 4; ++n) chunk[n] = packFloat2x16(f16vec2(af_to_f16(x[2 * n]), af_to_f16(x[2 * n + 1])));
  return chunk;
}
uvec4 af_pack_chunk_bf16(float x[8]) {
  uvec4 chunk;
  [[unroll]] for (int n = 0; n < 4; ++n) chunk[n] = uint(af_to_bf16(x[2 * n])) | uint(af_to_bf16(x[2 * n + 1])) << 16;
  return chunk;
}
uvec4 af_pack_chunk_f32(float x[4]) { return uvec4(af_bits(x[0]), af_bits(x[1]), af_bits(x[2]), af_bits(x[3])); }
#define af_put_chunk_f16(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) { f16vec2 pair = unpackFloat2x16(chunk[n]); tile[at + 2 * n] = pair.x; tile[at + 2 * n + 1] = pair.y; }
#define af_put_chunk_bf16(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) { tile[at + 2 * n] = uint16_t(chunk[n]); tile[at + 2 * n + 1] = uint16_t(chunk[n] >> 16); }
#define af_put_chunk_f32(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) tile[at + n] = af_from_bits(chunk[n]);
layout(buffer_reference, std430, buffer_reference_align = 16) coherent buffer af_output_chunk { uvec4 x; };
void af_store_chunk(af_u64 base, af_i64 at, uvec4 chunk) { af_output_chunk(base + af_u64(at)).x = chunk; }
#define af_get_chunk_f16(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) chunk[n] = packFloat2x16(f16vec2(tile[at + 2 * n], tile[at + 2 * n + 1]));
#define af_get_chunk_bf16(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) chunk[n] = uint(tile[at + 2 * n]) | uint(tile[at + 2 * n + 1]) << 16;
#define af_get_chunk_f32(tile, at, chunk) [[unroll]] for (int n = 0; n < 4; ++n) chunk[n] = af_bits(tile[at + n]);
// Everything before, in shared memory and in outputs, is visible to the workgroup (the subgroup) after it.
#define af_barrier() controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared | gl_StorageSemanticsBuffer, gl_SemanticsAcquireRelease)
#define af_subgroup_barrier() controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease)
)";
}

}  // namespace attnfuse::spirv
