#include "runtime/spirv_words.h"

#include <span>

namespace attnfuse::vulkan {
namespace {

constexpr std::uint32_t kMagic = 0x07230203;
constexpr std::size_t kHeader = 5;
constexpr std::uint32_t kExecutionMode = 16, kCapability = 17, kFunctionEnd = 56;  // instructions
constexpr std::uint32_t kLocalSize = 17, kNanPreserveMode = 4461, kNanPreserveCapability = 4466;

using Instruction = std::span<const std::uint32_t>;

std::uint32_t opcode(Instruction instruction) { return instruction[0] & 0xffffU; }

// Calls `visit` for every instruction; false when the words end inside one.
template <typename Visit>
bool each_instruction(const std::vector<std::uint32_t>& words, Visit visit) {
  if (words.size() < kHeader || words[0] != kMagic) return false;
  const std::span all(words);
  for (std::size_t at = kHeader; at < words.size();) {
    const std::uint32_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) return false;
    visit(all.subspan(at, length));
    at += length;
  }
  return true;
}

bool demands_nan(Instruction it) {
  if (opcode(it) == kCapability) return it.size() == 2 && it[1] == kNanPreserveCapability;
  return opcode(it) == kExecutionMode && it.size() == 4 && it[2] == kNanPreserveMode;
}

}  // namespace

int declared_threads(const std::vector<std::uint32_t>& words) {
  int threads = 0;
  std::uint32_t last = 0;
  const bool whole = each_instruction(words, [&](Instruction it) {
    last = opcode(it);
    if (last != kExecutionMode || it.size() != 6 || it[2] != kLocalSize) return;
    const std::uint64_t size = std::uint64_t(it[3]) * it[4] * it[5];
    threads = size < 1U << 16 ? int(size) : 0;
  });
  return whole && last == kFunctionEnd ? threads : 0;
}

std::vector<std::uint32_t> without_nan_demand(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint32_t> kept(words.begin(), words.begin() + kHeader);
  each_instruction(words, [&](Instruction it) {
    if (!demands_nan(it)) kept.insert(kept.end(), it.begin(), it.end());
  });
  return kept;
}

}  // namespace attnfuse::vulkan
