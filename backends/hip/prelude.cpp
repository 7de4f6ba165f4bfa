#include "backends/hip/prelude.h"

#include <fmt/format.h>

#include "ir/diagnostic.h"

namespace attnfuse::hip {

std::string_view prelude_types() {
  return R"(#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#endif
#define AF_FN __device__ inline __attribute__((always_inline))
typedef unsigned int af_u32;
typedef unsigned long long af_u64;
typedef long long af_i64;
typedef unsigned short af_f16;   // bits
typedef unsigned short af_bf16;  // bits
typedef af_u32 af_u32x2 __attribute__((ext_vector_type(2)));
typedef af_u32 af_u32x4 __attribute__((ext_vector_type(4)));
AF_FN af_u32 af_bits(float x) { return __builtin_bit_cast(af_u32, x); }
AF_FN float af_from_bits(af_u32 x) { return __builtin_bit_cast(float, x); }
#define af_fma __builtin_fmaf
#define af_rint __builtin_rintf
)";
}

std::string_view prelude() {
  return R"(AF_FN float af_abs(float x) { return __builtin_fabsf(x); }
AF_FN float af_min(float a, float b) { return __builtin_fminf(a, b); }
AF_FN float af_max(float a, float b) { return __builtin_fmaxf(a, b); }
AF_FN float af_floor(float x) { return __builtin_floorf(x); }
AF_FN float af_exp2(float x) { return __builtin_amdgcn_exp2f(x); }
AF_FN float af_exp(float x) { return af_exp2(x * 1.44269504f); }
AF_FN float af_log2(float x) { return __builtin_amdgcn_logf(x); }
AF_FN float af_log(float x) { return af_log2(x) * 0.69314718f; }
AF_FN float af_sqrt(float x) { return __builtin_amdgcn_sqrtf(x); }
AF_FN float af_rsqrt(float x) { return __builtin_amdgcn_rsqf(x); }
AF_FN float af_from_f16(af_f16 x) { return float(__builtin_bit_cast(_Float16, x)); }
AF_FN float af_from_bf16(af_bf16 x) { return af_from_bits(af_u32(x) << 16); }
AF_FN af_f16 af_to_f16(float x) { return __builtin_bit_cast(af_f16, _Float16(x)); }
// Round to nearest even; NaN stays NaN.
AF_FN af_u32 af_rounded(float x) { return af_bits(x) + 0x7fffu + ((af_bits(x) >> 16) & 1u); }
AF_FN af_bf16 af_to_bf16(float x) { return af_bf16(x == x ? af_rounded(x) >> 16 : (af_bits(x) >> 16) | 0x40u); }
AF_FN float af_to_f32(float x) { return x; }
AF_FN af_u32 af_low_halves(af_u32 a, af_u32 b) { return (a & 0xffffu) | b << 16; }
AF_FN af_u32 af_high_halves(af_u32 a, af_u32 b) { return a >> 16 | (b & 0xffff0000u); }
AF_FN af_u32 af_pack_f16(float lo, float hi) { return af_u32(af_to_f16(lo)) | af_u32(af_to_f16(hi)) << 16; }
// Two probabilities of one row: a NaN spoils the row, so one test serves both.
AF_FN af_u32 af_pack_bf16(float lo, float hi) {
  const af_u32 pair = af_high_halves(af_rounded(lo), af_rounded(hi));
  return __builtin_isunordered(lo, hi) ? 0x7fc07fc0u : pair;
}
AF_FN bool af_is_finite_f16(af_f16 x) { return (x & 0x7c00u) != 0x7c00u; }
AF_FN bool af_is_finite_bf16(af_bf16 x) { return (x & 0x7f80u) != 0x7f80u; }
// Eight or four elements at a time, 16-byte aligned.
AF_FN void af_unpack_f16(float& lo, float& hi, af_u32 x) { lo = af_from_f16(af_f16(x)); hi = af_from_f16(af_f16(x >> 16)); }
AF_FN void af_unpack_bf16(float& lo, float& hi, af_u32 x) { lo = af_from_bits(x << 16); hi = af_from_bits(x & 0xffff0000u); }
AF_FN af_u32x4 af_load_16(const void* from) { return *static_cast<const af_u32x4*>(from); }
AF_FN void af_store_16(void* to, af_u32x4 x) { *static_cast<af_u32x4*>(to) = x; }
AF_FN void af_load_chunk_f16(float (&x)[8], const af_f16* from) {
  const af_u32x4 v = af_load_16(from);
  af_unpack_f16(x[0], x[1], v.x); af_unpack_f16(x[2], x[3], v.y); af_unpack_f16(x[4], x[5], v.z); af_unpack_f16(x[6], x[7], v.w);
}
AF_FN void af_load_chunk_bf16(float (&x)[8], const af_bf16* from) {
  const af_u32x4 v = af_load_16(from);
  af_unpack_bf16(x[0], x[1], v.x); af_unpack_bf16(x[2], x[3], v.y); af_unpack_bf16(x[4], x[5], v.z); af_unpack_bf16(x[6], x[7], v.w);
}
AF_FN void af_load_chunk_f32(float (&x)[4], const float* from) {
  const af_u32x4 v = af_load_16(from);
  x[0] = af_from_bits(v.x); x[1] = af_from_bits(v.y); x[2] = af_from_bits(v.z); x[3] = af_from_bits(v.w);
}
AF_FN af_u32x4 af_chunk_f16(const float* x) {
  af_u32x4 v;
#pragma unroll
  for (int e = 0; e < 4; ++e) v[e] = af_u32(af_to_f16(x[2 * e])) | af_u32(af_to_f16(x[2 * e + 1])) << 16;
  return v;
}
AF_FN void af_store_chunk_f16(af_f16* to, const float* x) { af_store_16(to, af_chunk_f16(x)); }
AF_FN af_u32x4 af_chunk_bf16(const float* x) {
  af_u32x4 v;
#pragma unroll
  for (int e = 0; e < 4; ++e) v[e] = af_u32(af_to_bf16(x[2 * e])) | af_u32(af_to_bf16(x[2 * e + 1])) << 16;
  return v;
}
AF_FN void af_store_chunk_bf16(af_bf16* to, const float* x) { af_store_16(to, af_chunk_bf16(x)); }
AF_FN void af_store_chunk_f32(float* to, const float* x) {
  af_store_16(to, af_u32x4{af_bits(x[0]), af_bits(x[1]), af_bits(x[2]), af_bits(x[3])});
}
// `rows` chunks of eight elements, one below the other, into eight columns.
template <int rows>
AF_FN void af_store_columns(unsigned short* to, int stride, const af_u32x4* from) {
#pragma unroll
  for (int e = 0; e < 4; ++e, to += 2 * stride) {
    if constexpr (rows == 4) {
      *reinterpret_cast<af_u32x2*>(to) = af_u32x2{af_low_halves(from[0][e], from[1][e]), af_low_halves(from[2][e], from[3][e])};
      *reinterpret_cast<af_u32x2*>(to + stride) = af_u32x2{af_high_halves(from[0][e], from[1][e]), af_high_halves(from[2][e], from[3][e])};
    } else if constexpr (rows == 2) {
      *reinterpret_cast<af_u32*>(to) = af_low_halves(from[0][e], from[1][e]);
      *reinterpret_cast<af_u32*>(to + stride) = af_high_halves(from[0][e], from[1][e]);
    } else {
      const af_u32 pair = from[0][e];
      to[0] = af_f16(pair);
      to[stride] = af_f16(pair >> 16);
    }
  }
}
// The value of the lane at exclusive-or `distance`.
template <int distance>
AF_FN float af_exchange(float x, int lane) {
  const int bits = __builtin_bit_cast(int, x);
  int other;
  if constexpr (distance == 1)
    other = __builtin_amdgcn_update_dpp(0, bits, 0xb1, 0xf, 0xf, true);  // lanes 1 0 3 2 of four
  else if constexpr (distance == 2)
    other = __builtin_amdgcn_update_dpp(0, bits, 0x4e, 0xf, 0xf, true);  // lanes 2 3 0 1 of four
#if AF_WAVE == 32
  else if constexpr (distance == 16)
    other = int(__builtin_amdgcn_permlanex16(af_u32(bits), af_u32(bits), 0x76543210u, 0xfedcba98u, false, false));
#endif
  else if constexpr (distance < 32)
    other = __builtin_amdgcn_ds_swizzle(bits, 0x1f | distance << 10);
  else
    other = __builtin_amdgcn_ds_bpermute((lane ^ distance) * 4, bits);
  return __builtin_bit_cast(float, other);
}
AF_FN void af_barrier_workgroup() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
AF_FN void af_barrier_wave() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
  __builtin_amdgcn_wave_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
)";
}

namespace {

struct Instruction {
  std::string_view leaf;
  int m, k;
  std::string_view f16, bf16;  // $a, $b, $c
};
constexpr Instruction kInstructions[] = {
    {"mfma", 32, 8, "__builtin_amdgcn_mfma_f32_32x32x8f16($a, $b, $c, 0, 0, 0)",
     "__builtin_amdgcn_mfma_f32_32x32x8bf16_1k($a, $b, $c, 0, 0, 0)"},
    {"wmma", 16, 16, "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32($a, $b, $c)",
     "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32($a, $b, $c)"},
    {"wmma_gfx12", 16, 16, "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12($a, $b, $c)",
     "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12($a, $b, $c)"},
};

std::string call(std::string_view pattern) {
  std::string text;
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '$') {
      text += pattern[at];
      continue;
    }
    switch (pattern[++at]) {
      case 'a':
        text += "x.step[k]";
        break;
      case 'b':
        text += "y.step[k]";
        break;
      default:
        text += "v";
        break;
    }
  }
  return text;
}

}  // namespace

std::string matrix_prelude(const MatrixUnit& unit) {
  if (unit.is_fma()) return "";
  const Instruction* found = nullptr;
  for (const Instruction& row : kInstructions)
    if (row.leaf == unit.leaf && row.m == unit.m) found = &row;
  ATTNFUSE_CHECK(found != nullptr, fmt::format("no instruction for {} {}x{}", unit.leaf, unit.m, unit.k));
  const int steps = unit.k / found->k;  // instructions in a row
  const int operands = unit.a.register_count(), results = unit.accumulator.register_count();
  std::string text = fmt::format(
      "// Operands: {} packed pairs. Results: {} registers.\nstruct af_operand {{ af_u32 x[{}]; }};\ntypedef "
      "float af_result_vector __attribute__((ext_vector_type({})));\n",
      operands / 2, results, operands / 2, results);
  for (const auto& [name, element, pattern] :
       {std::tuple{"f16", "_Float16", found->f16}, std::tuple{"bf16", "short", found->bf16}})
    text += fmt::format(
        "AF_FN void af_mma_{0}(float* c, const af_operand& a, const af_operand& b) {{\n"
        "  typedef {1} af_elements __attribute__((ext_vector_type({2})));\n"
        "  struct af_steps {{ af_elements step[{5}]; }};\n"
        "  const af_steps x = __builtin_bit_cast(af_steps, a), y = __builtin_bit_cast(af_steps, b);\n"
        "  af_result_vector v;\n"
        "#pragma unroll\n"
        "  for (int e = 0; e < {3}; ++e) v[e] = c[e];\n"
        "#pragma unroll\n"
        "  for (int k = 0; k < {5}; ++k) v = {4};\n"
        "#pragma unroll\n"
        "  for (int e = 0; e < {3}; ++e) c[e] = v[e];\n"
        "}}\n",
        name, element, operands / steps, results, call(pattern), steps);
  text += fmt::format(
      "// A result exists from here on: the compiler moves no product past this point.\n"
      "AF_FN void af_settle(float* c) {{\n"
      "#ifdef __AMDGCN__\n"
      "  af_result_vector v;\n"
      "#pragma unroll\n"
      "  for (int e = 0; e < {0}; ++e) v[e] = c[e];\n"
      "  asm volatile(\"\" : \"+v\"(v));\n"
      "#pragma unroll\n"
      "  for (int e = 0; e < {0}; ++e) c[e] = v[e];\n"
      "#endif\n"
      "}}\n",
      results);
  // Consecutive elements of a row: 8 bytes at least, 16 at a time where they are that many.
  text += "AF_FN af_operand af_load_operand(const unsigned short* from) {\n  af_operand a;\n";
  if (operands == 4)
    text += "  const af_u32x2 v = *reinterpret_cast<const af_u32x2*>(from);\n  a.x[0] = v.x; a.x[1] = v.y;\n";
  else
    for (int part = 0; part < operands / 8; ++part)
      text += fmt::format(
          "  const af_u32x4 v{0} = af_load_16(from{1});\n  a.x[{2}] = v{0}.x; a.x[{3}] = v{0}.y; a.x[{4}] "
          "= v{0}.z; a.x[{5}] = v{0}.w;\n",
          part, part == 0 ? "" : fmt::format(" + {}", part * 8), part * 4, part * 4 + 1, part * 4 + 2,
          part * 4 + 3);
  text += "  return a;\n}\n";
  if (results < operands)
    text +=
        "// Each half of the wave holds eight of the sixteen elements of a row: fetch the others from the "
        "other half.\n"
        "AF_FN af_operand af_both_halves(const af_u32* own, int lane) {\n"
        "  af_operand a;\n"
        "#pragma unroll\n"
        "  for (int e = 0; e < 4; ++e) {\n"
        "    const af_u32 other = __builtin_amdgcn_permlanex16(own[e], own[e], 0x76543210u, 0xfedcba98u, "
        "false, false);\n"
        "    a.x[e] = lane < 16 ? own[e] : other;\n"
        "    a.x[e + 4] = lane < 16 ? other : own[e];\n"
        "  }\n"
        "  return a;\n"
        "}\n";
  return text;
}

}  // namespace attnfuse::hip
