#include "runtime/tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/diagnostic.h"

namespace attnfuse {
namespace {

// A 16-bit binary float: sign, exponent, mantissa. Conversion from double rounds once, to nearest even.
struct SmallFloat {
  int mantissa_bits;
  int exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint16_t infinity() const { return std::uint16_t(((1 << exponent_bits) - 1) << mantissa_bits); }
};
constexpr SmallFloat kHalf{10, 5};
constexpr SmallFloat kBfloat{7, 8};

constexpr int kDoubleMantissaBits = 52;

double widen(SmallFloat format, std::uint16_t bits) {
  const bool negative = (bits >> 15) != 0;
  const std::uint16_t magnitude = bits & 0x7fff;
  const std::uint16_t mantissa = magnitude & std::uint16_t((1 << format.mantissa_bits) - 1);
  if (magnitude > format.infinity()) {  // NaN: the payload moves to the top of the wider mantissa
    const std::uint64_t payload = std::uint64_t(mantissa) << (kDoubleMantissaBits - format.mantissa_bits);
    return std::bit_cast<double>(std::uint64_t(negative) << 63 | 0x7ff8'0000'0000'0000U | payload);
  }
  const int exponent = magnitude >> format.mantissa_bits;
  double value = std::numeric_limits<double>::infinity();
  if (magnitude != format.infinity()) {
    const int significand = exponent == 0 ? mantissa : mantissa | 1 << format.mantissa_bits;
    value = std::ldexp(significand, std::max(exponent, 1) - format.bias() - format.mantissa_bits);
  }
  return negative ? -value : value;
}

std::uint16_t narrow(SmallFloat format, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const auto sign = std::uint16_t(bits >> 63 << 15);
  if (std::isnan(value)) {
    const auto payload =
        std::uint16_t((bits & 0xf'ffff'ffff'ffffU) >> (kDoubleMantissaBits - format.mantissa_bits));
    return std::uint16_t(sign | format.infinity() | 1 << (format.mantissa_bits - 1) | payload);
  }
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return sign | format.infinity();
  // Counted in units of the last place at the value's exponent, a value is rounded by nearbyint. Rounding up
  // to the next exponent carries into the exponent field, and past the largest value into infinity.
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());
  const double units = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  const std::int64_t encoded =
      (std::int64_t(exponent + format.bias() - 1) << format.mantissa_bits) + std::int64_t(units);
  return std::uint16_t(sign | std::min<std::int64_t>(encoded, format.infinity()));
}

std::int32_t to_int32(double value) {
  if (std::isnan(value)) return 0;
  using Limits = std::numeric_limits<std::int32_t>;
  return std::int32_t(
      std::nearbyint(std::min(std::max(value, double(Limits::min())), double(Limits::max()))));
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void write(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

TensorLayout TensorLayout::contiguous(DType dtype, std::vector<std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) strides[axis] = stride;
  return {dtype, std::move(shape), std::move(strides)};
}

std::int64_t TensorLayout::element_count() const {
  std::int64_t count = 1;
  for (std::int64_t extent : shape) count *= extent;
  return count;
}

std::int64_t TensorLayout::offset(std::span<const std::int64_t> index) const {
  ATTNFUSE_CHECK(index.size() == shape.size(), "an index with the wrong number of dimensions");
  std::int64_t sum = 0;
  for (std::size_t axis = 0; axis < index.size(); ++axis) sum += index[axis] * strides[axis];
  return sum;
}

std::int64_t TensorLayout::span_elements() const {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 0) return 0;
    last += (shape[axis] - 1) * strides[axis];
  }
  return last + 1;
}

HostTensor HostTensor::zeros(TensorLayout layout) {
  const auto bytes = std::size_t(layout.span_elements()) * std::size_t(size_in_bytes(layout.dtype));
  return {std::move(layout), std::vector<std::byte>(bytes)};
}

double HostTensor::get(std::span<const std::int64_t> index) const {
  return load_element(layout.dtype, bytes.data() + layout.offset(index) * size_in_bytes(layout.dtype));
}

void HostTensor::set(std::span<const std::int64_t> index, double value) {
  store_element(layout.dtype, bytes.data() + layout.offset(index) * size_in_bytes(layout.dtype), value);
}

double load_element(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::f16:
      return widen(kHalf, read<std::uint16_t>(at));
    case DType::bf16:
      return widen(kBfloat, read<std::uint16_t>(at));
    case DType::f32:
      return read<float>(at);
    case DType::i32:
      return read<std::int32_t>(at);
    case DType::boolean:
      return *at == std::byte{0} ? 0 : 1;
  }
  return 0;
}

void store_element(DType dtype, std::byte* at, double value) {
  switch (dtype) {
    case DType::f16:
      return write(at, narrow(kHalf, value));
    case DType::bf16:
      return write(at, narrow(kBfloat, value));
    case DType::f32:
      return write(at, float(value));
    case DType::i32:
      return write(at, to_int32(value));
    case DType::boolean:
      return write(at, std::uint8_t(value != 0));
  }
}

double round_to(DType dtype, double value) {
  std::byte bytes[4];
  store_element(dtype, bytes, value);
  return load_element(dtype, bytes);
}

}  // namespace attnfuse
