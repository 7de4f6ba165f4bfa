#include "bench/plot.h"

#include <doctest/doctest.h>

namespace attnfuse::bench {

TEST_CASE("a plot draws every curve, inside its frame, with its name") {
  const std::string text = svg({{"a < b",
                                 "length",
                                 "us",
                                 {{"first", {{128, 10}, {256, 100}, {512, 1000}}, 0, false},
                                  {"second", {{128, 20}, {512, 20}}, 1, true}}}});
  CHECK(text.find("a &lt; b") != std::string::npos);
  CHECK(text.find(">first<") != std::string::npos);
  CHECK(text.find("stroke-dasharray") != std::string::npos);
  // The first curve runs from the lower left corner of the frame to the upper right one.
  CHECK(text.find("points=\"70.0,296.0 300.0,165.0 530.0,34.0\"") != std::string::npos);
  CHECK(text.rfind("</svg>\n") == text.size() - 7);
}

TEST_CASE("a plot without points is an empty frame") {
  const std::string text = svg({{"nothing", "x", "y", {{"curve", {}, 0, false}}}});
  CHECK(text.find("points=\"\"") != std::string::npos);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find("inf") == std::string::npos);
}

}  // namespace attnfuse::bench
