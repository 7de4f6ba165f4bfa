#include "backends/spirv/prelude.h"

namespace attnfuse::spirv {

std::string_view prelude_types() {
  return R"(#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define AF_FN
#define af_i64 int64_t
#define af_f16 float16_t
#define af_bf16 uint16_t  // bits
#define af_bits floatBitsToUint
#define af_from_bits uintBitsToFloat
#define af_fma fma
#define af_rint roundEven
// Device addresses as pointers.
layout(buffer_reference, std430, buffer_reference_align = 2) buffer af_ref_f16 { float16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer af_ref_bf16 { uint16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer af_ref_f32 { float v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer af_ref_i32 { int v; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer af_ref_boolean { uint8_t v; };
)";
}

std::string_view prelude() {
  return R"(float af_abs(float x) { return abs(x); }
// A NaN in the second operand is dropped; one in the first stays. Built-in min and max leave both open.
float af_min(float a, float b) { return b < a ? b : a; }
float af_max(float a, float b) { return b > a ? b : a; }
float af_floor(float x) { return floor(x); }
// Below the normal range the result is zero, infinity included, whatever the driver's exp2 clamps to.
float af_exp2(float x) { return x < -126.0f ? 0.0f : exp2(x); }
float af_exp(float x) { return af_exp2(x * 1.44269504f); }
float af_log2(float x) { return x == 0.0f ? -af_infinity : log2(x); }
float af_log(float x) { return af_log2(x) * 0.69314718f; }
float af_sqrt(float x) { return sqrt(x); }
float af_rsqrt(float x) { return 1.0f / sqrt(x); }
float af_from_f16(float16_t x) { return float(x); }
float16_t af_to_f16(float x) { return float16_t(x); }
float af_from_bf16(uint16_t x) { return uintBitsToFloat(uint(x) << 16); }
// Round to nearest even; NaN stays NaN.
uint16_t af_to_bf16(float x) {
  uint u = floatBitsToUint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return uint16_t((u >> 16) | 0x40u);
  return uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float af_to_f32(float x) { return x; }
bool af_is_finite_f16(float16_t x) { return (uint(float16BitsToUint16(x)) & 0x7c00u) != 0x7c00u; }
bool af_is_finite_bf16(uint16_t x) { return (uint(x) & 0x7f80u) != 0x7f80u; }
)";
}

}  // namespace attnfuse::spirv
