// Element types, value types and axes: the vocabulary of every graph and tile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace attnfuse {

// How a tensor is stored.
enum class DType : std::uint8_t { f16, bf16, f32, i32, boolean };

// What an expression computes with. f16, bf16 and f32 tensors are read as f32.
enum class ValueType : std::uint8_t { f32, i32, boolean };

std::string_view name(DType dtype);
std::string_view name(ValueType type);
std::optional<DType> dtype_from_name(std::string_view text);
int size_in_bytes(DType dtype);  // boolean: 1
ValueType value_type(DType dtype);

// batch, query head, key/value head, query position, key position, position along the head dim.
enum class Axis : std::uint8_t { b, h, g, i, j, d };
inline constexpr Axis kAllAxes[] = {Axis::b, Axis::h, Axis::g, Axis::i, Axis::j, Axis::d};

std::string_view name(Axis axis);

// The set of axes a value depends on. It decides where the value is computed: {i,d} before the
// product once per query tile, {j,d} once per key tile, {i,j} on the score tile, {} as a scalar.
class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (Axis axis : axes) bits_ |= bit(axis);
  }
  constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool within(Axes other) const { return (bits_ & ~other.bits_) == 0; }
  constexpr Axes operator|(Axes other) const { return Axes(std::uint8_t(bits_ | other.bits_)); }
  constexpr Axes operator&(Axes other) const { return Axes(std::uint8_t(bits_ & other.bits_)); }
  constexpr Axes without(Axis axis) const { return Axes(std::uint8_t(bits_ & ~bit(axis))); }
  constexpr bool operator==(const Axes&) const = default;
  constexpr bool empty() const { return bits_ == 0; }

 private:
  constexpr explicit Axes(std::uint8_t bits) : bits_(bits) {}
  static constexpr std::uint8_t bit(Axis axis) { return std::uint8_t(1U << unsigned(axis)); }
  std::uint8_t bits_ = 0;
};

std::string to_string(Axes axes);  // "{b,h,i}"

}  // namespace attnfuse
