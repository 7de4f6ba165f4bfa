// What the files of rope share: pairs of elements and their frequencies. Only rope*.cpp and xpos.cpp use it.
#pragma once

#include <optional>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {

inline constexpr Choice kPairs[] = {{"half"}, {"interleaved"}};
inline constexpr Parameter kPairsParameter{.name = "pairs",
                                           .kind = ParameterKind::choice,
                                           .presence = Presence::defaulted,
                                           .about = "which elements turn together",
                                           .choices = kPairs};

// The elements along d that turn: pairs p = 0 ... pairs - 1.
struct RotaryElements {
  RotaryPairs style;
  int pairs;
  int start;     // of the first pair; interleaved only
  int distance;  // between the elements of a pair; half only
  int head_dim;

  // Nothing when the arguments (dims, pairs and, where the block has them, start and distance) do not fit the
  // head; the mistake is then reported.
  static std::optional<RotaryElements> read(const BlockInput& input, bool has_start_and_distance);

  Value pair(const Value& d) const;
  Value is_first(const Value& d) const;  // of its pair
  Value turns(const Value& d) const;     // constant when all elements do
};

// rope's parameter `scaling`.
std::span<const Choice> rope_scalings() noexcept;
struct Frequency {
  Value turn;         // angle of one position
  double factor = 1;  // of the turned elements
};
// frequency = theta^(-2p/n) of pair p, scaled as the arguments say.
Frequency scaled_frequency(const BlockInput& input, const Value& frequency, const Value& pair, double theta,
                           double n);

// rope's parameter `axes`: which position turns which pair.
std::span<const Choice> rope_axes() noexcept;
struct PairAxes {
  std::vector<int> sections;  // pairs of each axis; empty: one axis
  enum class Layout : std::uint8_t { chunked, interleaved, axial } layout = Layout::chunked;

  static std::optional<PairAxes> read(const BlockInput& input, int pairs);
  // One of the values of the axes, by pair.
  Value choose(const Value& pair, const std::vector<Value>& by_axis) const;
};

// The row's position: an argument `position`, or by stage; plus the argument `offset`.
Value row_position(const BlockInput& input);

}  // namespace attnfuse
