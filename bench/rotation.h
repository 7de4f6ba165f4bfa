// The rotation calculus against the clock: every choice at every point, predicted and measured, where one
// takes over from the other, and how far the model's choice is from the best.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "passes/rotation.h"
#include "runtime/machine.h"

namespace attnfuse::bench {

struct RotationSweep {
  int heads = 32, head_dim = 128;
  std::vector<int> groups = {1, 4, 8};     // query heads to a key head
  std::int64_t first = 128, last = 32768;  // lengths, by powers of two
  std::int64_t tokens = 16384;             // of a prefill: batch * length, and at least one sequence
  std::int64_t decode_batch = 16;
  double seconds = 120;  // for all of it
};

struct RotationTime {
  Rotation rotation = Rotation::fuse;
  bool cached = false;
  double predicted_us = 0;
  std::optional<double> measured_us;  // absent: no time was left
  std::string failure;                // why it cannot run
};

struct RotationPoint {
  bool decode = false;
  int group = 1;
  CallSizes sizes;
  std::vector<RotationTime> times;

  Rotation predicted() const;                // the model's choice
  std::optional<Rotation> measured() const;  // the fastest
  std::optional<double> excess() const;      // of the choice's time over the fastest, as a fraction
};

struct RotationReport {
  std::string device, target, dtype;
  RotationSweep sweep;
  std::vector<RotationPoint> points;
};

// Measures point by point, shortest first in every curve, until the seconds are used up; `progress` gets one
// line a point. A point's choices are launched in turns. Diagnostics: when nothing can be run.
Result<RotationReport> bench_rotation(const Machine& machine, const RotationSweep& sweep,
                                      const std::function<void(const std::string&)>& progress);

// The program that is timed: rotated queries and keys, causal.
Result<Graph> rotation_program(const RotationSweep& sweep, int group, DType dtype);

// The length from which on another choice than `fuse` is best, by power of two; none if there is none.
std::optional<std::int64_t> crossover(const RotationReport& report, bool decode, int group, bool measured);

std::string json(const RotationReport& report);
std::string svg(const RotationReport& report);
// One line a curve: crossovers; and the largest excess.
std::string summary(const RotationReport& report);

}  // namespace attnfuse::bench
