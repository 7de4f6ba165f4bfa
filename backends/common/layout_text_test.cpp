// The index arithmetic that emitters print, evaluated, is the layout's own coordinate.
#include <doctest/doctest.h>

#include <random>
#include <sstream>

#include "backends/common/tile_writer.h"

using namespace attnfuse;

namespace {

// Value of "a / 2 % 4 * 8 + b * 3" with the names bound: the operators that layout texts use, left to right.
int evaluate(const std::string& text, const std::string& name, int value) {
  std::istringstream in(text);
  std::string token;
  const auto number = [&](const std::string& t) { return t == name ? value : std::stoi(t); };
  int sum = 0, term = 0;
  in >> token;
  term = number(token);
  std::string op;
  while (in >> op >> token) {
    const int operand = number(token);
    if (op == "+") {
      sum += term;
      term = operand;
    } else if (op == "*") {
      term *= operand;
    } else if (op == "/") {
      term /= operand;
    } else {
      REQUIRE(op == "%");
      term %= operand;
    }
  }
  return sum + term;
}

std::vector<Digit> random_digits(std::mt19937& random) {
  std::vector<Digit> digits;
  const int count = int(random() % 4);
  for (int n = 0; n < count; ++n)
    digits.push_back(
        {int(1 + random() % 5), random() % 2 == 0 ? TileAxis::row : TileAxis::col, int(random() % 9)});
  return digits;
}

}  // namespace

TEST_CASE("digit sums agree with the layout's coordinates for random mixed-radix digits") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const std::vector<Digit> digits = random_digits(random);
    int count = 1;
    for (const Digit& digit : digits) count *= digit.extent;
    for (TileAxis axis : {TileAxis::row, TileAxis::col}) {
      const std::string text = digit_sum(digits, axis, "r");
      CAPTURE(text);
      for (int index = 0; index < count; ++index)
        CHECK(evaluate(text, "r", index) == coordinate(digits, axis, index));
    }
  }
}

TEST_CASE("index texts leave out what changes nothing") {
  CHECK(times("n", 1) == "n");
  CHECK(times("n", 8) == "n * 8");
  CHECK(plus("k * 16", "0") == "k * 16");
  CHECK(plus("0", "lane") == "lane");
  CHECK(plus("0", "0") == "0");
}

TEST_CASE("of the lanes that share an element, one is chosen") {
  FragmentLayout layout;
  layout.lanes = {{4, TileAxis::col, 0}, {8, TileAxis::row, 1}};
  CHECK(one_lane_condition(layout) == "lane % 4 == 0");
  layout.lanes = {{8, TileAxis::row, 1}, {2, TileAxis::col, 0}, {2, TileAxis::col, 0}};
  CHECK(one_lane_condition(layout) == "lane / 8 % 2 == 0 && lane / 16 == 0");
  layout.lanes = {{32, TileAxis::row, 1}};
  CHECK(one_lane_condition(layout).empty());
}

TEST_CASE("literals survive the round trip through text") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    const float value = std::ldexp(float(random()) / 4294967296.0F - 0.5F, int(random() % 200) - 100);
    const std::string text = literal(value);
    CHECK(text.back() == 'f');
    CHECK(std::stof(text) == value);
  }
  CHECK(literal(2) == "2.0f");
  CHECK(literal(-std::numeric_limits<double>::infinity()) == "-af_infinity");
}
