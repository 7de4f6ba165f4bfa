// Curves over two logarithmic axes, as SVG text.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace attnfuse::bench {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // positive
  int colour = 0;                                 // number in a palette
  bool dashed = false;
};

struct Plot {
  std::string title, x_name, y_name;
  std::vector<Curve> curves;
};

// Plots one below the other.
std::string svg(const std::vector<Plot>& plots);

}  // namespace attnfuse::bench
