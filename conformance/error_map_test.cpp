#include "conformance/error_map.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "conformance/case.h"
#include "frontend/parser.h"

namespace attnfuse::conformance {

TEST_CASE("an error map shows where an output is wrong, in the worst head and by heads") {
  const auto c =
      parse_line("map b=2 sq=70 skv=20 :: attention t { heads 3 kv_heads 1 head_dim 16 dtype f16 }");
  REQUIRE(c.ok());
  const auto graph = parse_one(c->program);
  const auto expected = expect(*graph, make_inputs(*graph, *c));
  REQUIRE(expected.ok());
  OutputValues outputs{expected->exact.o, expected->exact.lse, {}};
  CHECK(error_maps(*graph, *expected, outputs).empty());

  // Batch entry 1, head 2, row 69, column 5; and an LSE of the first head.
  const auto at = [](std::int64_t b, std::int64_t h, std::int64_t i) {
    return std::size_t((b * 3 + h) * 70 + i);
  };
  outputs.o[at(1, 2, 69) * 16 + 5] += 1;
  outputs.lse[at(0, 0, 3)] = NAN;
  const auto maps = error_maps(*graph, *expected, outputs);
  REQUIRE(maps.size() == 3);
  CHECK(maps[0].title == "o[1,2]: rows x columns");
  CHECK(maps[0].rows == 70);
  CHECK(maps[0].height == 35);  // two rows to a cell
  CHECK(maps[0].width == 16);
  for (std::int64_t row = 0; row < 35; ++row)
    for (std::int64_t column = 0; column < 16; ++column)
      CHECK((maps[0].worst[std::size_t(row * 16 + column)] > 1) == (row == 34 && column == 5));
  CHECK(maps[1].title == "o[1]: rows x heads");
  CHECK(maps[1].worst[34 * 3 + 2] > 1);
  CHECK(maps[1].worst[34 * 3 + 1] == 0);
  CHECK(maps[2].title == "lse[0]: rows x heads");
  CHECK(std::isinf(maps[2].worst[1 * 3 + 0]));
}

}  // namespace attnfuse::conformance
