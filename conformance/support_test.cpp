#include "conformance/support.h"

#include <doctest/doctest.h>

namespace attnfuse::conformance {
namespace {

using State = SupportCell::State;

std::vector<SupportCell> cells(const std::string& target, State wide) {
  std::vector<SupportCell> result;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const std::string leaf = dtype == DType::f32 ? "fma" : "mma.sync";
    for (int dim : {8, 16, 24}) result.push_back({target, dtype, dim, dim, State::emits, leaf});
    result.push_back({target, dtype, 192, 128, State::emits, leaf});
    result.push_back({target, dtype, 256, 256, wide, leaf, "too wide"});
  }
  return result;
}

}  // namespace

TEST_CASE("targets that are alike share a row, and head dims that are not alike are listed as ranges") {
  std::vector<SupportCell> all = cells("a:1", State::emits);
  for (const auto& more : {cells("a:2", State::emits), cells("b:1", State::passes)})
    all.insert(all.end(), more.begin(), more.end());
  CHECK(support_table(all) == R"(| target | f16 | bf16 | f32 |
|---|---|---|---|
| `a:1` `a:2` | mma.sync | mma.sync | fma |
| `b:1` | mma.sync: 8–24, 192/128; mma.sync passes: 256 | mma.sync: 8–24, 192/128; mma.sync passes: 256 | fma: 8–24, 192/128; fma passes: 256 |

Nothing is refused.
)");
}

TEST_CASE("what is refused is listed with its reason") {
  const std::string text = support_table(cells("a:1", State::refused));
  CHECK(text.find("mma.sync: 8–24, 192/128; refused: 256") != std::string::npos);
  CHECK(text.find("\nRefused:\n\n* `a:1` f16 256: too wide\n* `a:1` bf16 256: too wide\n") !=
        std::string::npos);
}

TEST_CASE("a target can emit every dtype and head dim, or says why not") {
  const Target target = all_targets().front();
  const auto matrix = support_matrix({target}, SupportDepth::source, nullptr);
  CHECK(matrix.size() == 3 * 39);
  for (const SupportCell& cell : matrix) {
    CAPTURE(cell.head_dim);
    CHECK_MESSAGE(cell.state != State::broken, cell.message);
    CHECK(cell.message.empty() == (cell.state == State::emits));
  }
}

}  // namespace attnfuse::conformance
