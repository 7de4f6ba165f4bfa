// Host versions of the prelude's functions that hold inline PTX: the same names and signatures.
#include "backends/cuda/emulator/host_source.h"

namespace attnfuse::cuda {

std::string_view host_intrinsics() {
  return R"(struct af_tensor_map;
AF_FN float af_exp2(float x) { return x < -126.0f ? 0.0f : exp2f(x); }  // results are never denormal
AF_FN float af_reciprocal(float x) { return 1.0f / x; }
AF_FN float af_min_nan(float a, float b) { return a > b ? b : a; }
AF_FN float af_from_f16(af_f16 x) { return float(attnfuse_bits<_Float16>(x)); }
AF_FN af_f16 af_to_f16(float x) { return attnfuse_bits<af_f16>(_Float16(x)); }
AF_FN af_bf16 af_to_bf16(float x) {
  const af_u32 bits = af_bits(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return af_bf16((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
AF_FN af_u32 af_pack_f16(float lo, float hi) { return af_u32(af_to_f16(lo)) | af_u32(af_to_f16(hi)) << 16; }
AF_FN af_u32 af_pack_bf16(float lo, float hi) { return af_u32(af_to_bf16(lo)) | af_u32(af_to_bf16(hi)) << 16; }
AF_FN void af_copy_async(void* to, const void* from, bool inside) {
  const af_u64 in[3] = {af_u64(to), af_u64(from), inside};
  attnfuse_call(OP_copy, 0, in, nullptr);
}
AF_FN void af_copy_commit() { attnfuse_call(OP_copy_commit, 0, nullptr, nullptr); }
AF_FN void af_copy_wait() { attnfuse_call(OP_copy_wait, 0, nullptr, nullptr); }
AF_FN void af_ldmatrix(af_u32& a, af_u32& b, af_u32& c, af_u32& d, const void* row) {
  const af_u64 in[1] = {af_u64(row)};
  af_u32 out[4];
  attnfuse_call(OP_load_matrix, 4, in, out);
  a = out[0]; b = out[1]; c = out[2]; d = out[3];
}
AF_FN void af_ldmatrix_transposed(af_u32& a, af_u32& b, af_u32& c, af_u32& d, const void* row) {
  const af_u64 in[1] = {af_u64(row)};
  af_u32 out[4];
  attnfuse_call(OP_load_matrix_transposed, 4, in, out);
  a = out[0]; b = out[1]; c = out[2]; d = out[3];
}
AF_FN void af_ldmatrix_transposed(af_u32& a, af_u32& b, const void* row) {
  const af_u64 in[1] = {af_u64(row)};
  af_u32 out[2];
  attnfuse_call(OP_load_matrix_transposed, 2, in, out);
  a = out[0]; b = out[1];
}
AF_FN void af_mma_f16(float* c, af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u32 b0, af_u32 b1) {
  const af_u64 in[6] = {a0, a1, a2, a3, b0, b1};
  attnfuse_call(OP_multiply_f16, 0, in, c);
}
AF_FN void af_mma_bf16(float* c, af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u32 b0, af_u32 b1) {
  const af_u64 in[6] = {a0, a1, a2, a3, b0, b1};
  attnfuse_call(OP_multiply_bf16, 0, in, c);
}
AF_FN void af_barrier_init(af_u64* barrier, int arrivals) { const af_u64 in[2] = {af_u64(barrier), af_u64(arrivals)}; attnfuse_call(OP_barrier_init, 0, in, nullptr); }
AF_FN void af_barrier_init_fence() { attnfuse_call(OP_barrier_init_fence, 0, nullptr, nullptr); }
AF_FN void af_arrive(af_u64* barrier) { const af_u64 in[2] = {af_u64(barrier), 0}; attnfuse_call(OP_barrier_arrive, 0, in, nullptr); }
AF_FN void af_expect(af_u64* barrier, int bytes) { const af_u64 in[2] = {af_u64(barrier), af_u64(bytes)}; attnfuse_call(OP_barrier_arrive, 1, in, nullptr); }
AF_FN void af_wait(af_u64* barrier, af_u32 parity) {
  const af_u64 in[2] = {af_u64(barrier), parity};
  af_u32 over = 0;
  while (over == 0) attnfuse_call(OP_barrier_test, 0, in, &over);
}
AF_FN void af_bulk_load(void* to, const af_tensor_map* map, af_u64* barrier, int c0, int c1, int c2, int c3, af_u64 cache_hint) {
  const af_u64 in[8] = {af_u64(to), af_u64(map), af_u64(barrier), af_u64(c0), af_u64(c1), af_u64(c2), af_u64(c3), cache_hint};
  attnfuse_call(OP_bulk_load, 0, in, nullptr);
}
AF_FN void af_bulk_store(const af_tensor_map* map, const void* from, int c0, int c1, int c2, int c3, af_u64 cache_hint) {
  const af_u64 in[7] = {af_u64(map), af_u64(from), af_u64(c0), af_u64(c1), af_u64(c2), af_u64(c3), cache_hint};
  attnfuse_call(OP_bulk_store, 0, in, nullptr);
}
AF_FN void af_bulk_commit() { attnfuse_call(OP_bulk_commit, 0, nullptr, nullptr); }
template <int N> AF_FN void af_bulk_wait_read() { attnfuse_call(OP_bulk_wait_read, N, nullptr, nullptr); }
template <int N> AF_FN void af_bulk_wait() { attnfuse_call(OP_bulk_wait, N, nullptr, nullptr); }
AF_FN void af_fence_async() { attnfuse_call(OP_proxy_fence, 0, nullptr, nullptr); }
AF_FN void af_named_sync(int id, int threads) { const af_u64 in[2] = {af_u64(id), af_u64(threads)}; attnfuse_call(OP_sync_named, 0, in, nullptr); }
AF_FN void af_named_arrive(int id, int threads) { const af_u64 in[2] = {af_u64(id), af_u64(threads)}; attnfuse_call(OP_arrive_named, 0, in, nullptr); }
template <int N> AF_FN void af_registers_inc() { attnfuse_call(OP_raise_registers, N, nullptr, nullptr); }
template <int N> AF_FN void af_registers_dec() { attnfuse_call(OP_lower_registers, N, nullptr, nullptr); }
AF_FN void af_wgmma_fence() { attnfuse_call(OP_product_fence, 0, nullptr, nullptr); }
AF_FN void af_wgmma_commit() { attnfuse_call(OP_product_commit, 0, nullptr, nullptr); }
template <int N> AF_FN void af_wgmma_wait() { af_u32 over = 0; while (over == 0) attnfuse_call(OP_product_wait, N, nullptr, &over); }
template <int R> AF_FN void af_wgmma_ss_f16(float (&d)[R], af_u64 a, af_u64 b, int accumulate) { const af_u64 in[3] = {a, b, accumulate != 0}; attnfuse_product(OP_product_shared_f16, d, in); }
template <int R> AF_FN void af_wgmma_ss_bf16(float (&d)[R], af_u64 a, af_u64 b, int accumulate) { const af_u64 in[3] = {a, b, accumulate != 0}; attnfuse_product(OP_product_shared_bf16, d, in); }
template <int R> AF_FN void af_wgmma_rs_f16(float (&d)[R], af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u64 b, int accumulate) { const af_u64 in[6] = {a0, a1, a2, a3, b, accumulate != 0}; attnfuse_product(OP_product_registers_f16, d, in); }
template <int R> AF_FN void af_wgmma_rs_bf16(float (&d)[R], af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3, af_u64 b, int accumulate) { const af_u64 in[6] = {a0, a1, a2, a3, b, accumulate != 0}; attnfuse_product(OP_product_registers_bf16, d, in); }
template <int N> AF_FN void af_keep(float (&)[N]) {}
AF_FN void af_stmatrix(void* row, af_u32 a, af_u32 b, af_u32 c, af_u32 d) { const af_u64 in[5] = {af_u64(row), a, b, c, d}; attnfuse_call(OP_store_matrix, 4, in, nullptr); }
AF_FN int af_opaque(int x) { return x; }
AF_FN void af_after(float) {}
AF_FN void af_store_if(bool condition, af_u64 tensor, af_i64 element, float value) { if (condition) reinterpret_cast<float*>(tensor)[element] = value; }
AF_FN void af_grid_wait() {}
AF_FN void af_grid_launch_dependents() {}
)";
}

}  // namespace attnfuse::cuda
