// A small random generator whose numbers are the same on every machine, so that a seed names a case's data.
#pragma once

#include <cmath>
#include <cstdint>

namespace attnfuse::conformance {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // splitmix64
  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double uniform() { return double(bits() >> 11) * 0x1p-53; }  // [0, 1)
  std::int64_t below(std::int64_t bound) { return std::int64_t(uniform() * double(bound)); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t state_;
};

// FNV-1a: mixes a name into a seed.
constexpr std::uint64_t hash_of(const char* text, std::uint64_t seed = 0) {
  std::uint64_t hash = 0xcbf29ce484222325ULL ^ seed;
  for (; *text; ++text) hash = (hash ^ std::uint64_t(static_cast<unsigned char>(*text))) * 0x100000001b3ULL;
  return hash;
}

}  // namespace attnfuse::conformance
