#include "backends/hip/emulator/builtins.h"

#include <fmt/format.h>

#include "backends/emulator/host_text.h"
#include "backends/hip/emulator/operation.h"

namespace attnfuse::hip {
namespace {

constexpr std::string_view kBuiltins = R"(
#define __global__
#define __device__ static
#define __constant__ static
#define __shared__ static __attribute__((section("attnfuse_shared"), aligned(16)))
#define amdgpu_flat_work_group_size(...)
#define amdgpu_waves_per_eu(...)
AF_EMU unsigned __builtin_amdgcn_workitem_id_x() { return attnfuse_state.thread; }
AF_EMU unsigned __builtin_amdgcn_workgroup_id_x() { return attnfuse_state.workgroup[0]; }
AF_EMU unsigned __builtin_amdgcn_workgroup_id_y() { return attnfuse_state.workgroup[1]; }
AF_EMU unsigned __builtin_amdgcn_workgroup_id_z() { return attnfuse_state.workgroup[2]; }
template <class Result, class Operands>
AF_EMU Result attnfuse_meet(int operation, int immediate, const Operands& operands) {
  Result result;
  attnfuse_call(operation, immediate, &operands, &result);
  return result;
}
#define __builtin_amdgcn_fence(order, ...) __atomic_signal_fence(order)
#define __builtin_amdgcn_sched_barrier(mask)
#define __builtin_amdgcn_sched_group_barrier(mask, size, id)
#define __builtin_amdgcn_iglp_opt(kind)
#define __builtin_amdgcn_s_setprio(level)
AF_EMU void __builtin_amdgcn_s_barrier() { attnfuse_call(OP_workgroup_barrier, 0, nullptr, nullptr); }
AF_EMU void __builtin_amdgcn_wave_barrier() { attnfuse_call(OP_wave_barrier, 0, nullptr, nullptr); }
AF_EMU int __builtin_amdgcn_ds_bpermute(int lane, int value) { int in[2] = {lane, value}; return attnfuse_meet<int>(OP_bpermute, 0, in); }
AF_EMU int __builtin_amdgcn_ds_swizzle(int value, int pattern) { return attnfuse_meet<int>(OP_swizzle, pattern, value); }
AF_EMU int __builtin_amdgcn_mov_dpp(int value, int control, int, int, bool) { return attnfuse_meet<int>(OP_quad, control, value); }
AF_EMU int __builtin_amdgcn_update_dpp(int, int value, int control, int, int, bool) { return attnfuse_meet<int>(OP_quad, control, value); }
AF_EMU unsigned __builtin_amdgcn_permlanex16(unsigned, unsigned value, unsigned low, unsigned high, bool, bool) { unsigned in[3] = {value, low, high}; return attnfuse_meet<unsigned>(OP_permlane16x, 0, in); }
AF_EMU int __builtin_amdgcn_readfirstlane(int value) { return attnfuse_meet<int>(OP_first_lane, 0, value); }
AF_EMU float __builtin_amdgcn_exp2f(float x) { return __builtin_exp2f(x); }
AF_EMU float __builtin_amdgcn_logf(float x) { return __builtin_log2f(x); }
AF_EMU float __builtin_amdgcn_rcpf(float x) { return 1.0f / x; }
AF_EMU float __builtin_amdgcn_sqrtf(float x) { return __builtin_sqrtf(x); }
AF_EMU float __builtin_amdgcn_rsqf(float x) { return 1.0f / __builtin_sqrtf(x); }
AF_EMU float __builtin_amdgcn_fmed3f(float a, float b, float c) { return __builtin_fmaxf(__builtin_fminf(__builtin_fmaxf(a, b), c), __builtin_fminf(a, b)); }
template <int Elements, class Operand, class Accumulator>
AF_EMU Accumulator attnfuse_matrix(int operation, Operand a, Operand b, Accumulator c) {
  struct { unsigned short a[Elements], b[Elements]; float c[sizeof(Accumulator) / 4]; } in;
  float out[sizeof(Accumulator) / 4];
  __builtin_memcpy(in.a, &a, sizeof in.a);
  __builtin_memcpy(in.b, &b, sizeof in.b);
  __builtin_memcpy(in.c, &c, sizeof in.c);
  attnfuse_call(operation, 0, &in, out);
  __builtin_memcpy(&c, out, sizeof c);
  return c;
}
#define __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, x, y, z) attnfuse_matrix<4>(OP_mfma_32x32x8_f16, a, b, c)
#define __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, x, y, z) attnfuse_matrix<4>(OP_mfma_32x32x8_bf16, a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, x, y, z) attnfuse_matrix<4>(OP_mfma_16x16x16_f16, a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, x, y, z) attnfuse_matrix<4>(OP_mfma_16x16x16_bf16, a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c) attnfuse_matrix<16>(OP_wmma_f16, a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c) attnfuse_matrix<16>(OP_wmma_bf16, a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c) attnfuse_matrix<8>(OP_wmma_gfx12_f16, a, b, c)
#define __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c) attnfuse_matrix<8>(OP_wmma_gfx12_bf16, a, b, c)
#line 1 "kernel.hip"
)";

struct Name {
  Operation operation;
  std::string_view name;
};
constexpr Name kNames[] = {
    {Operation::workgroup_barrier, "workgroup_barrier"},
    {Operation::wave_barrier, "wave_barrier"},
    {Operation::bpermute, "bpermute"},
    {Operation::swizzle, "swizzle"},
    {Operation::quad, "quad"},
    {Operation::permlane16x, "permlane16x"},
    {Operation::first_lane, "first_lane"},
    {Operation::mfma_32x32x8_f16, "mfma_32x32x8_f16"},
    {Operation::mfma_32x32x8_bf16, "mfma_32x32x8_bf16"},
    {Operation::mfma_16x16x16_f16, "mfma_16x16x16_f16"},
    {Operation::mfma_16x16x16_bf16, "mfma_16x16x16_bf16"},
    {Operation::wmma_f16, "wmma_f16"},
    {Operation::wmma_bf16, "wmma_bf16"},
    {Operation::wmma_gfx12_f16, "wmma_gfx12_f16"},
    {Operation::wmma_gfx12_bf16, "wmma_gfx12_bf16"},
};

}  // namespace

std::string_view name(Operation operation) {
  for (const Name& row : kNames)
    if (row.operation == operation) return row.name;
  return "";
}

std::string host_source(std::string_view source, std::string_view entry) {
  std::string text;
  for (const Name& row : kNames) text += fmt::format("#define OP_{} {}\n", row.name, int(row.operation));
  text += emulator::lane_text();
  text += kBuiltins;
  text += source;
  text += emulator::entry_text(entry);
  return text;
}

}  // namespace attnfuse::hip
