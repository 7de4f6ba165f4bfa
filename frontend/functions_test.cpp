#include "frontend/functions.h"

#include <cmath>

#include "frontend/blocks/block_test.h"

namespace attnfuse {

TEST_CASE("erf is the error function to 1.5e-7") {
  StageValues values("score erf(x)");
  for (int n = -600; n <= 600; ++n) {
    values.score = n * 0.01;
    CHECK(std::abs(values.scored({}) - std::erf(n * 0.01)) <= 1.5e-7);
  }
  for (double huge : {1e30, -1e30}) {
    values.score = huge;
    CHECK(values.scored({}) == (huge > 0 ? 1 : -1));
  }
}

}  // namespace attnfuse
