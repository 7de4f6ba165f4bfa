#include "runtime/spirv_words.h"

#include <doctest/doctest.h>

namespace attnfuse::vulkan {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t instruction(std::uint32_t opcode, std::uint32_t length) {
  return length << 16 | opcode;
}

const Words kHeader{0x07230203, 0x00010500, 0, 10, 0};
const Words kShader{instruction(17, 2), 1};                  // OpCapability Shader
const Words kKeepCapability{instruction(17, 2), 4466};       // OpCapability SignedZeroInfNanPreserve
const Words kLocalSize{instruction(16, 6), 4, 17, 8, 4, 2};  // OpExecutionMode %4 LocalSize 8 4 2
const Words kKeepMode{instruction(16, 4), 4, 4461, 32};      // OpExecutionMode %4 SignedZeroInfNanPreserve 32
const Words kEnd{instruction(56, 1)};                        // OpFunctionEnd

Words joined(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("a module's threads are the product of its local size") {
  CHECK(declared_threads(joined({kHeader, kShader, kLocalSize, kEnd})) == 64);
}

TEST_CASE("what is no whole compute module declares no threads") {
  const Words whole = joined({kHeader, kShader, kLocalSize, kEnd});
  for (std::size_t size = 0; size < whole.size(); ++size)
    CHECK(declared_threads(Words(whole.begin(), whole.begin() + std::ptrdiff_t(size))) == 0);
  Words other = whole;
  other[0] = 0x03022307;
  CHECK(declared_threads(other) == 0);
  CHECK(declared_threads(joined({kHeader, kShader, kEnd})) == 0);
  CHECK(declared_threads(joined({kHeader, kLocalSize, {0}, kEnd})) == 0);
  CHECK(declared_threads(joined({kHeader, {instruction(16, 6), 4, 17, 1U << 16, 1U << 16, 1}, kEnd})) == 0);
}

TEST_CASE("the demand to keep NaN is taken out of a module, and nothing else") {
  CHECK(without_nan_demand(joined({kHeader, kShader, kKeepCapability, kLocalSize, kKeepMode, kEnd})) ==
        joined({kHeader, kShader, kLocalSize, kEnd}));
  const Words plain = joined({kHeader, kShader, kLocalSize, kEnd});
  CHECK(without_nan_demand(plain) == plain);
}

}  // namespace attnfuse::vulkan
