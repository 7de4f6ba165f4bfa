#include "bench/rotation.h"

#include <doctest/doctest.h>

namespace attnfuse::bench {
namespace {

RotationPoint point(std::int64_t length, double fuse, double both, double fuse_measured,
                    double both_measured) {
  RotationPoint p{false, 4, {1, length, length}, {}};
  p.times = {{Rotation::fuse, false, fuse, fuse_measured, {}},
             {Rotation::both, false, both, both_measured, {}}};
  return p;
}

RotationReport report() {
  RotationReport r{"device", "target", "f16", {}, {}};
  r.sweep.groups = {4};
  r.points = {point(512, 90, 100, 40, 20), point(128, 10, 20, 10, 12), point(256, 30, 40, 22, 20),
              point(1024, 300, 200, 80, 50)};
  return r;
}

}  // namespace

TEST_CASE("the crossover is the length from which on a pre-pass stays best") {
  CHECK(crossover(report(), false, 4, false) == 1024);
  CHECK(crossover(report(), false, 4, true) == 256);
  CHECK(!crossover(report(), true, 4, true));
}

TEST_CASE("the excess compares the chosen time with the best one") {
  const RotationReport r = report();
  CHECK(r.points[0].predicted() == Rotation::fuse);
  CHECK(r.points[0].measured() == Rotation::both);
  CHECK(*r.points[0].excess() == doctest::Approx(1.0));
  CHECK(*r.points[1].excess() == 0);
  RotationPoint unmeasured = r.points[0];
  for (RotationTime& time : unmeasured.times) time.measured_us.reset();
  CHECK(!unmeasured.excess());
}

TEST_CASE("a cache that callers may not have is never the choice") {
  RotationPoint p = point(512, 90, 100, 40, 20);
  p.times.push_back({Rotation::key, true, 1, 1, {}});
  CHECK(p.predicted() == Rotation::fuse);
  CHECK(p.measured() == Rotation::both);
}

TEST_CASE("the report says where curves cross and how far choices are from the best") {
  const std::string text = summary(report());
  CHECK(text.find("prefill group 4: a pre-pass pays from 1024 on by the model, 256 by the clock") !=
        std::string::npos);
  CHECK(text.find("4 of 4 points measured; the choice is within 3% of the best at 2") != std::string::npos);
  CHECK(text.find("worst +100.0%") != std::string::npos);
  CHECK(json(report()).find("\"excess\": 1.0") != std::string::npos);
  CHECK(svg(report()).find("both, predicted") != std::string::npos);
}

}  // namespace attnfuse::bench
