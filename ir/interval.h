// Closed intervals over the reals: what a value may be when its operands range.
// Booleans are intervals over {0,1}: [0,0] never, [1,1] always, [0,1] unknown.
// everything() also stands for NaN; a value in any other interval is not NaN.
#pragma once

#include <limits>

namespace attnfuse {

struct Interval {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();

  static Interval point(double value) { return {value, value}; }
  static Interval everything() { return {}; }
  static Interval truth() { return {0, 1}; }
  bool is_everything() const { return *this == everything(); }
  bool is_point() const { return lo == hi; }
  bool contains(double value) const { return lo <= value && value <= hi; }
  bool operator==(const Interval&) const = default;
};

Interval hull(Interval a, Interval b);

}  // namespace attnfuse
