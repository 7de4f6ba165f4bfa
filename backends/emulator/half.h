// Values of 16-bit elements, as matrix units read them.
#pragma once

#include <cstdint>

namespace attnfuse::emulator {

enum class Half : std::uint8_t { f16, bf16 };

float decode(std::uint16_t bits, Half type);
// A denormal becomes a zero of its sign.
std::uint16_t flush_denormal(std::uint16_t bits, Half type);

}  // namespace attnfuse::emulator
