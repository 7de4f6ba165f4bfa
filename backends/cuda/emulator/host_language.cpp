// CUDA C++ as clang compiles it for the host: what kernels use of the language beyond C++.
#include "backends/cuda/emulator/host_source.h"

namespace attnfuse::cuda {

std::string_view host_language() {
  return R"(
#define __global__
#define __device__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
// Only `extern __shared__` arrays: elsewhere this attribute is an error.
#define __shared__ __attribute__((section("attnfuse_shared")))
extern "C" { alignas(4096) __attribute__((used, section("attnfuse_shared"))) unsigned char shared_memory[ATTNFUSE_SHARED_BYTES]; }

struct attnfuse_index { unsigned x, y, z; };
#define threadIdx (attnfuse_index{attnfuse_state.thread, 0, 0})
#define blockDim (attnfuse_index{attnfuse_state.threads, 1, 1})
#define blockIdx (attnfuse_index{attnfuse_state.workgroup[0], attnfuse_state.workgroup[1], attnfuse_state.workgroup[2]})
#define gridDim (attnfuse_index{attnfuse_state.grid[0], attnfuse_state.grid[1], attnfuse_state.grid[2]})

struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
AF_EMU uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
AF_EMU uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
AF_EMU int2 make_int2(int x, int y) { return {x, y}; }
AF_EMU int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
AF_EMU float2 make_float2(float x, float y) { return {x, y}; }
AF_EMU float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <class To, class From>
AF_EMU To attnfuse_bits(From from) { static_assert(sizeof(To) == sizeof(From)); To to; __builtin_memcpy(&to, &from, sizeof to); return to; }
AF_EMU unsigned __float_as_uint(float x) { return attnfuse_bits<unsigned>(x); }
AF_EMU float __uint_as_float(unsigned x) { return attnfuse_bits<float>(x); }
AF_EMU int __float_as_int(float x) { return attnfuse_bits<int>(x); }
AF_EMU float __int_as_float(int x) { return attnfuse_bits<float>(x); }
AF_EMU float fabsf(float x) { return __builtin_fabsf(x); }
AF_EMU float fminf(float a, float b) { return __builtin_fminf(a, b); }
AF_EMU float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
AF_EMU float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
AF_EMU float floorf(float x) { return __builtin_floorf(x); }
AF_EMU float rintf(float x) { return __builtin_rintf(x); }
AF_EMU float expf(float x) { return __builtin_expf(x); }
AF_EMU float exp2f(float x) { return __builtin_exp2f(x); }
AF_EMU float logf(float x) { return __builtin_logf(x); }
AF_EMU float __logf(float x) { return __builtin_logf(x); }
AF_EMU float log2f(float x) { return __builtin_log2f(x); }
AF_EMU float sqrtf(float x) { return __builtin_sqrtf(x); }
AF_EMU float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
AF_EMU float tanhf(float x) { return __builtin_tanhf(x); }
AF_EMU float __fdividef(float a, float b) { return a / b; }
AF_EMU int min(int a, int b) { return a < b ? a : b; }
AF_EMU int max(int a, int b) { return a > b ? a : b; }

template <class T> struct attnfuse_same { typedef T type; };
template <class T> AF_EMU T atomicAdd(T* at, typename attnfuse_same<T>::type value) { const T old = *at; *at = old + value; return old; }
template <class T> AF_EMU T atomicSub(T* at, typename attnfuse_same<T>::type value) { const T old = *at; *at = old - value; return old; }
template <class T> AF_EMU T atomicExch(T* at, typename attnfuse_same<T>::type value) { const T old = *at; *at = value; return old; }
template <class T> AF_EMU T atomicMin(T* at, typename attnfuse_same<T>::type value) { const T old = *at; if (value < old) *at = value; return old; }
template <class T> AF_EMU T atomicMax(T* at, typename attnfuse_same<T>::type value) { const T old = *at; if (old < value) *at = value; return old; }
template <class T> AF_EMU T atomicOr(T* at, typename attnfuse_same<T>::type value) { const T old = *at; *at = old | value; return old; }
template <class T> AF_EMU T atomicCAS(T* at, typename attnfuse_same<T>::type compare, typename attnfuse_same<T>::type value) { const T old = *at; if (old == compare) *at = value; return old; }
AF_EMU unsigned atomicInc(unsigned* at, unsigned limit) { const unsigned old = *at; *at = old >= limit ? 0 : old + 1; return old; }
AF_EMU void __threadfence() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
AF_EMU void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

AF_EMU int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
AF_EMU unsigned long long __cvta_generic_to_shared(const void* p) { return (unsigned long long)((const unsigned char*)p - shared_memory) + ATTNFUSE_SHARED_BASE; }

AF_EMU void __syncthreads() { attnfuse_call(OP_sync_threads, 0, nullptr, nullptr); }
// The machine has whole warps only.
AF_EMU void attnfuse_full(unsigned mask) { if (mask != 0xffffffffu) __builtin_trap(); }
AF_EMU void __syncwarp(unsigned mask = 0xffffffffu) { attnfuse_full(mask); attnfuse_call(OP_sync_warp, 0, nullptr, nullptr); }
template <class T>
AF_EMU T attnfuse_shuffle(int kind, unsigned mask, T value, int lane) {
  attnfuse_full(mask);
  const unsigned long long in[2] = {attnfuse_bits<unsigned>(value), (unsigned long long)lane};
  unsigned out;
  attnfuse_call(OP_shuffle, kind, in, &out);
  return attnfuse_bits<T>(out);
}
template <class T> AF_EMU T __shfl_sync(unsigned mask, T value, int lane) { return attnfuse_shuffle(0, mask, value, lane); }
template <class T> AF_EMU T __shfl_xor_sync(unsigned mask, T value, int lane) { return attnfuse_shuffle(1, mask, value, lane); }
template <class T> AF_EMU T __shfl_up_sync(unsigned mask, T value, int lane) { return attnfuse_shuffle(2, mask, value, lane); }
template <class T> AF_EMU T __shfl_down_sync(unsigned mask, T value, int lane) { return attnfuse_shuffle(3, mask, value, lane); }
AF_EMU unsigned __ballot_sync(unsigned mask, int predicate) {
  attnfuse_full(mask);
  const unsigned long long in[1] = {predicate != 0};
  unsigned out;
  attnfuse_call(OP_ballot, 0, in, &out);
  return out;
}
template <int R>
AF_EMU void attnfuse_product(int operation, float (&d)[R], const unsigned long long* in) {
  static_assert(R % 4 == 0 && R >= 4 && R <= 128, "n is 8, 16, ... 256");
  attnfuse_call(operation, 2 * R, in, d);
}
AF_EMU int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
AF_EMU int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == 0xffffffffu; }
)";
}

}  // namespace attnfuse::cuda
