#include "backends/cuda/prelude.h"

#include <algorithm>
#include <cmath>

#include "backends/common/prelude.h"

namespace attnfuse::cuda {

std::string_view prelude_types() {
  return R"(#define AF_FN __device__ __forceinline__
typedef unsigned int af_u32;
typedef unsigned long long af_u64;
typedef long long af_i64;
typedef unsigned short af_f16;   // bits
typedef unsigned short af_bf16;  // bits
AF_FN af_u32 af_bits(float x) { return __float_as_uint(x); }
AF_FN float af_from_bits(af_u32 x) { return __uint_as_float(x); }
#define af_fma fmaf
#define af_rint rintf
)";
}

namespace {

constexpr std::string_view kTanh = R"(// To 1.5e-7, absolute.
AF_FN float af_tanh(float x) { return 1.0f - 2.0f * af_reciprocal(1.0f + af_exp2(x * 2.8853901f)); }
// 1 / x for x in [1, 2^60], to 1.5e-7, without the special function unit: three steps of Newton's.
AF_FN float af_newton_reciprocal(float x) {
  float y = af_from_bits(0x7ef311c7u - af_bits(x));
  y *= af_fma(-x, y, 2.0f);
  y *= af_fma(-x, y, 2.0f);
  return y * af_fma(-x, y, 2.0f);
}
// The unit is what many of them wait for: every other one goes round it.
AF_FN void af_tanh_pair(float& x, float& y, float factor) {
  const float scale = 2.8853901f * factor;
  x = 1.0f - 2.0f * af_reciprocal(1.0f + af_exp2(x * scale));
  y = 1.0f - 2.0f * af_newton_reciprocal(1.0f + af_exp2(af_min_nan(y * scale, 59.0f)));
}
)";

}  // namespace

bool takes_absolute_errors(const Graph& graph) {
  constexpr double kSmall = 128;
  const auto is_tanh = [&](NodeId id) {
    const auto* apply = as<Apply>(graph.node(id));
    return apply != nullptr && apply->op == ScalarOp::tanh;
  };
  for (std::uint32_t v = 0; v < graph.size(); ++v) {
    const std::vector<NodeId> operands = graph.operands({v});
    if (std::ranges::none_of(operands, is_tanh)) continue;
    const auto* apply = as<Apply>(graph.node({v}));
    if (apply == nullptr || apply->op != ScalarOp::mul) return false;
    const auto* factor = as<Constant>(graph.node(operands[is_tanh(operands[0]) ? 1 : 0]));
    if (factor == nullptr || std::abs(factor->value) > kSmall) return false;
  }
  return true;
}

namespace {

constexpr std::string_view kPrelude = R"(AF_FN float af_abs(float x) { return fabsf(x); }
AF_FN float af_min(float a, float b) { return fminf(a, b); }
AF_FN float af_max(float a, float b) { return fmaxf(a, b); }
AF_FN float af_min_nan(float a, float b) { float y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
AF_FN float af_floor(float x) { return floorf(x); }
AF_FN float af_exp(float x) { return expf(x); }
AF_FN float af_exp2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
AF_FN float af_log(float x) { return __logf(x); }
AF_FN float af_log2(float x) { return log2f(x); }
AF_FN float af_sqrt(float x) { return sqrtf(x); }
AF_FN float af_rsqrt(float x) { return rsqrtf(x); }
AF_FN float af_reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
AF_FN float af_from_f16(af_f16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
AF_FN float af_from_bf16(af_bf16 x) { return af_from_bits(af_u32(x) << 16); }
AF_FN af_f16 af_to_f16(float x) { af_f16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
AF_FN af_bf16 af_to_bf16(float x) { af_bf16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
AF_FN float af_to_f32(float x) { return x; }
AF_FN af_u32 af_pack_f16(float lo, float hi) { af_u32 y; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo)); return y; }
AF_FN af_u32 af_pack_bf16(float lo, float hi) { af_u32 y; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo)); return y; }
AF_FN bool af_is_finite_f16(af_f16 x) { return (x & 0x7c00u) != 0x7c00u; }
AF_FN bool af_is_finite_bf16(af_bf16 x) { return (x & 0x7f80u) != 0x7f80u; }
// 16 bytes from global to shared memory in the background; zeros unless `inside`.
AF_FN void af_copy_async(void* to, const void* from, bool inside) {
  af_u32 address = af_u32(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(inside ? 16 : 0) : "memory");
}
AF_FN void af_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
AF_FN void af_copy_wait() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
// Kernels in a row on sm_90 and later: this one waits for those before it, or lets the next one start.
AF_FN void af_grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
AF_FN void af_grid_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Eight or four elements at a time, 16-byte aligned.
AF_FN void af_unpack_f16(float& lo, float& hi, af_u32 x) { lo = af_from_f16(af_f16(x)); hi = af_from_f16(af_f16(x >> 16)); }
AF_FN void af_unpack_bf16(float& lo, float& hi, af_u32 x) { lo = af_from_bits(x << 16); hi = af_from_bits(x & 0xffff0000u); }
AF_FN void af_load_chunk_f16(float (&x)[8], const af_f16* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  af_unpack_f16(x[0], x[1], v.x); af_unpack_f16(x[2], x[3], v.y); af_unpack_f16(x[4], x[5], v.z); af_unpack_f16(x[6], x[7], v.w);
}
AF_FN void af_load_chunk_bf16(float (&x)[8], const af_bf16* from) {
  const uint4 v = *reinterpret_cast<const uint4*>(from);
  af_unpack_bf16(x[0], x[1], v.x); af_unpack_bf16(x[2], x[3], v.y); af_unpack_bf16(x[4], x[5], v.z); af_unpack_bf16(x[6], x[7], v.w);
}
AF_FN void af_load_chunk_f32(float (&x)[4], const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  x[0] = v.x; x[1] = v.y; x[2] = v.z; x[3] = v.w;
}
AF_FN void af_store_chunk_f16(af_f16* to, const float (&x)[8]) {
  *reinterpret_cast<uint4*>(to) = make_uint4(af_pack_f16(x[0], x[1]), af_pack_f16(x[2], x[3]), af_pack_f16(x[4], x[5]), af_pack_f16(x[6], x[7]));
}
AF_FN void af_store_chunk_bf16(af_bf16* to, const float (&x)[8]) {
  *reinterpret_cast<uint4*>(to) = make_uint4(af_pack_bf16(x[0], x[1]), af_pack_bf16(x[2], x[3]), af_pack_bf16(x[4], x[5]), af_pack_bf16(x[6], x[7]));
}
AF_FN void af_store_chunk_f32(float* to, const float (&x)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}
// Four (two) 8x8 matrices of 16-bit elements; lane l names row l % 8 of matrix l / 8.
AF_FN void af_ldmatrix(af_u32& a, af_u32& b, af_u32& c, af_u32& d, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(af_u32(__cvta_generic_to_shared(row))) : "memory");
}
AF_FN void af_ldmatrix_transposed(af_u32& a, af_u32& b, af_u32& c, af_u32& d, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(af_u32(__cvta_generic_to_shared(row))) : "memory");
}
AF_FN void af_ldmatrix_transposed(af_u32& a, af_u32& b, const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(af_u32(__cvta_generic_to_shared(row))) : "memory");
}
AF_FN void af_mma_f16(float* c, af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u32 b0, af_u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
AF_FN void af_mma_bf16(float* c, af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u32 b0, af_u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
)";

}  // namespace

std::string prelude(const TileProgram& program) {
  const bool absolute = takes_absolute_errors(program.expressions);
  return std::string(kPrelude) + std::string(absolute ? kTanh : tanh_prelude());
}

}  // namespace attnfuse::cuda
