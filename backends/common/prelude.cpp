#include "backends/common/prelude.h"

namespace attnfuse {

std::string_view common_prelude() {
  return R"(#define af_infinity af_from_bits(0x7f800000u)
AF_FN bool af_is_finite_f32(float x) { return (af_bits(x) & 0x7f800000u) != 0x7f800000u; }
AF_FN float af_maximum(float a, float b) { return a >= b || a != a ? a : b; }
AF_FN int af_imin(int a, int b) { return a < b ? a : b; }
AF_FN int af_imax(int a, int b) { return a > b ? a : b; }
AF_FN int af_bit_and(int a, int b) { return a & b; }
AF_FN int af_bit_or(int a, int b) { return a | b; }
AF_FN int af_bit_xor(int a, int b) { return a ^ b; }
AF_FN int af_bit_not(int a) { return ~a; }
AF_FN int af_shift_left(int a, int n) { return a << (n & 31); }
AF_FN int af_shift_right(int a, int n) { return a >> (n & 31); }
// Toward minus infinity, like Python's // and %; by zero gives zero.
AF_FN int af_floordiv(int a, int b) {
  if (b == 0) return 0;
  int q = a / b;
  return (a - q * b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
AF_FN int af_floormod(int a, int b) {
  if (b == 0) return 0;
  int r = a - a / b * b;  // GLSL leaves % of negative numbers open
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}
// sin and cos of x: x minus n quarter turns in three steps (Cody and Waite), then minimax polynomials.
AF_FN float af_sin_quarter(float r) {
  float z = r * r;
  float p = af_fma(z, af_fma(z, -1.9515296e-4f, 8.3321609e-3f), -1.6666655e-1f);
  return af_fma(p * z, r, r);
}
AF_FN float af_cos_quarter(float r) {
  float z = r * r;
  float p = af_fma(z, af_fma(z, 2.4433157e-5f, -1.3887316e-3f), 4.1666646e-2f);
  return af_fma(af_fma(p, z, -0.5f), z, 1.0f);
}
AF_FN float af_turned(float x, int turn) {
  float n = af_rint(x * 0.63661977f);
  float r = af_fma(n, -1.5703125f, x);
  r = af_fma(n, -4.8375130e-4f, r);
  r = af_fma(n, -7.5497899e-8f, r);
  int q = int(n) + turn;
  float v = (q & 1) != 0 ? af_cos_quarter(r) : af_sin_quarter(r);
  return (q & 2) != 0 ? -v : v;
}
AF_FN float af_sin(float x) { return af_turned(x, 0); }
AF_FN float af_cos(float x) { return af_turned(x, 1); }
)";
}

std::string prelude_of(const Graph& expressions, const std::string& roll) {
  bool draws = false;
  for (std::uint32_t v = 0; v < expressions.size(); ++v)
    if (const auto* apply = as<Apply>(expressions.node({v}))) draws = draws || apply->op == ScalarOp::philox;
  if (!draws) return {};
  // Written out for every element of a tile, the rounds would be most of the kernel.
  return R"(// Philox4x32-10 at counter (j // 4, i, n, 0) with key (seed, 0): 24 bits of its word j % 4, as a fraction.
AF_FN float af_philox(int seed, int n, int i, int j) {
  af_u32 c0 = af_u32(j >> 2), c1 = af_u32(i), c2 = af_u32(n), c3 = 0u, key0 = af_u32(seed), key1 = 0u;
)" + (roll.empty() ? "" : "  " + roll + "\n") +
         R"(  for (int round = 0; round < 10; ++round) {
    af_u64 a = af_u64(0xD2511F53u) * af_u64(c0), b = af_u64(0xCD9E8D57u) * af_u64(c2);
    c0 = af_u32(b >> 32) ^ c1 ^ key0;
    c1 = af_u32(b);
    c2 = af_u32(a >> 32) ^ c3 ^ key1;
    c3 = af_u32(a);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  af_u32 word = (j & 2) == 0 ? ((j & 1) == 0 ? c0 : c1) : (j & 1) == 0 ? c2 : c3;
  return float(word >> 8) * 5.9604644775390625e-8f;
}
)";
}

std::string_view tanh_prelude() {
  return R"(AF_FN float af_tanh(float x) {
  float a = af_abs(x), z = x * x;
  if (a < 0.35f) return x * (1.0f + z * (-0.33333333f + z * (0.13333333f + z * (-0.053968254f + z * (0.021869489f - z * 0.0088632355f)))));
  float t = af_exp2(a * -2.8853901f);
  float y = (1.0f - t) / (1.0f + t);
  return x < 0.0f ? -y : y;
}
)";
}

}  // namespace attnfuse
