#include "backends/emulator/half.h"

#include <bit>
#include <cmath>
#include <vector>

namespace attnfuse::emulator {
namespace {

float decode_f16(int bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float magnitude = 0;
  if (exponent == 31)
    magnitude = mantissa == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    magnitude = std::ldexp(float(mantissa), -24);
  else
    magnitude = std::ldexp(float(mantissa + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

float decode(std::uint16_t bits, Half type) {
  if (type == Half::bf16) return std::bit_cast<float>(std::uint32_t(bits) << 16);
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (int n = 0; n < 1 << 16; ++n) all[std::size_t(n)] = decode_f16(n);
    return all;
  }();
  return values[bits];
}

std::uint16_t flush_denormal(std::uint16_t bits, Half type) {
  const unsigned exponent = type == Half::bf16 ? 0x7f80U : 0x7c00U;
  return (bits & exponent) == 0 ? std::uint16_t(bits & 0x8000U) : bits;
}

}  // namespace attnfuse::emulator
