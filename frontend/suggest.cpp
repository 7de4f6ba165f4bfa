#include "frontend/suggest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace attnfuse {
namespace {

constexpr std::size_t kMaxWord = 40;

// Insertions, deletions, replacements and swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t x = 0; x <= a.size(); ++x)
    for (std::size_t y = 0; y <= b.size(); ++y) {
      if (x == 0 || y == 0) {
        cost[x][y] = x + y;
        continue;
      }
      cost[x][y] =
          std::min({cost[x - 1][y] + 1, cost[x][y - 1] + 1, cost[x - 1][y - 1] + (a[x - 1] != b[y - 1])});
      if (x > 1 && y > 1 && a[x - 1] == b[y - 2] && a[x - 2] == b[y - 1])
        cost[x][y] = std::min(cost[x][y], cost[x - 2][y - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string suggest(std::string_view word, std::span<const std::string_view> known, std::string otherwise) {
  if (word.size() < 2 || word.size() > kMaxWord) return otherwise;
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (std::string_view candidate : known) {
    if (candidate.size() < 2 || candidate.size() > kMaxWord) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best.empty() ? otherwise : fmt::format("did you mean '{}'?", best);
}

}  // namespace attnfuse
