#include "runtime/tensor.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

using namespace attnfuse;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The textbook value of a finite non-negative pattern, by powers of two.
double formula(DType dtype, unsigned bits) {
  const int mantissa_bits = dtype == DType::f16 ? 10 : 7;
  const int bias = dtype == DType::f16 ? 15 : 127;
  const unsigned exponent = bits >> mantissa_bits;
  const double fraction = double(bits % (1U << mantissa_bits)) / double(1U << mantissa_bits);
  if (exponent == 0) return fraction * std::pow(2.0, 1 - bias);
  return (1 + fraction) * std::pow(2.0, int(exponent) - bias);
}

unsigned infinity_bits(DType dtype) { return dtype == DType::f16 ? 0x7c00 : 0x7f80; }

double decoded(DType dtype, unsigned bits) {
  const auto pattern = std::uint16_t(bits);
  std::byte bytes[2];
  std::memcpy(bytes, &pattern, 2);
  return load_element(dtype, bytes);
}

unsigned encoded(DType dtype, double value) {
  std::byte bytes[2];
  store_element(dtype, bytes, value);
  std::uint16_t pattern;
  std::memcpy(&pattern, bytes, 2);
  return pattern;
}

}  // namespace

TEST_CASE("every f16 and bf16 pattern means what the format's formula says, and is written back unchanged") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    int wrong = 0;
    for (unsigned bits = 0; bits < 0x8000; ++bits) {
      const double value = decoded(dtype, bits);
      const double mirrored = decoded(dtype, bits | 0x8000);
      if (bits > infinity_bits(dtype)) {
        const unsigned quiet = dtype == DType::f16 ? 0x200 : 0x40;
        if (!std::isnan(value) || encoded(dtype, value) != (bits | quiet)) ++wrong;
        if (!std::isnan(mirrored) || encoded(dtype, mirrored) != (bits | 0x8000 | quiet)) ++wrong;
        continue;
      }
      const double wanted = bits == infinity_bits(dtype) ? kInfinity : formula(dtype, bits);
      if (value != wanted || mirrored != -wanted || !std::signbit(mirrored)) ++wrong;
      if (encoded(dtype, value) != bits || encoded(dtype, mirrored) != (bits | 0x8000)) ++wrong;
    }
    CHECK_MESSAGE(wrong == 0, name(dtype));
  }
}

TEST_CASE("between any two neighbours f16 and bf16 round to the nearest, and ties to even") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    int wrong = 0;
    for (unsigned bits = 0; bits < infinity_bits(dtype); ++bits) {
      const double low = formula(dtype, bits),
                   high = formula(dtype, bits + 1);  // the last one past the largest
      const double middle = low + (high - low) / 2;
      if (encoded(dtype, middle) != bits + bits % 2) ++wrong;
      if (encoded(dtype, std::nextafter(middle, -kInfinity)) != bits) ++wrong;
      if (encoded(dtype, std::nextafter(middle, kInfinity)) != bits + 1) ++wrong;
      if (encoded(dtype, -middle) != (0x8000 | (bits + bits % 2))) ++wrong;
    }
    CHECK_MESSAGE(wrong == 0, name(dtype));
  }
}

TEST_CASE("a double is rounded once, not by way of f32") {
  // Just above a tie of f16, but exactly the tie after rounding to f32.
  const double value = 1 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  CHECK(round_to(DType::f16, value) == 1 + std::ldexp(1.0, -10));
  CHECK(round_to(DType::f16, double(float(value))) == 1);
}

TEST_CASE("huge, tiny and special values have a fixed meaning in every dtype") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(round_to(DType::f16, 1e300) == kInfinity);
  CHECK(round_to(DType::bf16, -1e300) == -kInfinity);
  CHECK(round_to(DType::f16, 1e-300) == 0);
  CHECK(round_to(DType::f32, 0.1) == double(0.1F));
  CHECK(round_to(DType::i32, 2.5) == 2);
  CHECK(round_to(DType::i32, 3.5) == 4);
  CHECK(round_to(DType::i32, 1e300) == 2147483647);
  CHECK(round_to(DType::i32, -kInfinity) == -2147483648.0);
  CHECK(round_to(DType::i32, nan) == 0);
  CHECK(round_to(DType::boolean, 0.25) == 1);
  CHECK(round_to(DType::boolean, -0.0) == 0);
  CHECK(std::isnan(round_to(DType::f32, nan)));
}

TEST_CASE("a contiguous layout counts elements in row-major order") {
  const TensorLayout layout = TensorLayout::contiguous(DType::f32, {2, 3, 4});
  CHECK(layout.strides == std::vector<std::int64_t>{12, 4, 1});
  CHECK(layout.element_count() == 24);
  CHECK(layout.span_elements() == 24);
  const std::int64_t index[] = {1, 2, 3};
  CHECK(layout.offset(index) == 23);
  CHECK(TensorLayout::contiguous(DType::f32, {2, 0, 4}).span_elements() == 0);
  CHECK(TensorLayout::contiguous(DType::f32, {}).span_elements() == 1);
}

TEST_CASE("elements of permuted, padded and broadcast layouts lie where their strides say") {
  HostTensor tensor = HostTensor::zeros({DType::i32, {2, 3, 2}, {1, 5, 0}});  // permuted, padded, broadcast
  CHECK(tensor.layout.span_elements() == 12);
  CHECK(tensor.bytes.size() == 48);
  for (std::int64_t a = 0; a < 2; ++a)
    for (std::int64_t b = 0; b < 3; ++b) tensor.set(std::vector<std::int64_t>{a, b, 0}, double(10 * a + b));
  CHECK(tensor.get(std::vector<std::int64_t>{1, 2, 1}) == 12);
  CHECK(load_element(DType::i32, tensor.bytes.data() + 4 * 11) == 12);
  CHECK(load_element(DType::i32, tensor.bytes.data() + 4 * 2) == 0);  // padding stays
}
