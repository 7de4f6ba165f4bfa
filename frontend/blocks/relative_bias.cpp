// relative_bias(table, kind, align): x + table[h, bucket] with a bucket for every distance t = j - p.
//
//   direct         the table has a place for every distance from -R to R, 2R + 1 of them; beyond, the ends
//   count bidirectional  half of the buckets for keys at or before the query, half for keys after it (T5's
//   encoder) causal         all buckets for keys at or before the query; keys after it count as distance 0
//   (T5's decoder)
//
// T5's buckets (Raffel et al., 2020): of n, one for each of the distances below n / 2, and for the others
// n / 2 + floor(log(t / (n / 2)) / log(max_distance / (n / 2)) * n / 2), at most n - 1. The logarithm is
// written as comparisons with the distances where it steps, so that no rounding moves a bucket's edge.
#include <algorithm>
#include <cmath>

#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"

namespace attnfuse {
namespace {

constexpr int kMostBuckets = 512;
constexpr Stage kStages[] = {Stage::score};
constexpr TensorAxis kAxes[] = {{"heads", Size::heads}, {"buckets", {}, true}};
constexpr Parameter kLogarithmic[] = {
    {.name = "max_distance",
     .kind = ParameterKind::integer,
     .presence = Presence::defaulted,
     .about = "distances from here on share the last bucket",
     .fallback = 128,
     .least = 1,
     .most = kMostKeys},
};
constexpr Choice kKinds[] = {{"direct"}, {"bidirectional", kLogarithmic}, {"causal", kLogarithmic}};
constexpr Parameter kParameters[] = {
    {.name = "table",
     .kind = ParameterKind::tensor,
     .presence = Presence::required,
     .about = "what is added, for every head and bucket; log buckets: at most 512",
     .axes = kAxes},
    {.name = "kind",
     .kind = ParameterKind::choice,
     .presence = Presence::defaulted,
     .about = "how distances fall into buckets",
     .choices = kKinds},
    kAlignParameter,
};

// The bucket of a distance >= 0.
Value logarithmic_bucket(const Value& distance, int buckets, int max_distance) {
  const int exact = buckets / 2, others = buckets - exact;
  Value bucket = min(distance, exact);
  const double growth = std::max(1.0, double(max_distance) / std::max(exact, 1));
  for (int step = 1; step < others; ++step) {
    constexpr double kRounding = 1e-9;
    const double edge = std::ceil(exact * std::pow(growth, double(step) / others) * (1 - kRounding));
    const Value is_beyond = distance >= int(std::min(edge, kMostKeys));
    bucket = bucket + select(is_beyond, 1, 0);
  }
  return bucket;
}

Value bucket_of(const BlockInput& input, const Value& distance, int buckets) {
  const std::size_t kind = input.arguments.choice("kind");
  if (kind == 0) return distance + (buckets - 1) / 2;
  const int max_distance = input.arguments.nested("kind").integer("max_distance");
  if (kind == 2) return logarithmic_bucket(max(-distance, 0), buckets, max_distance);
  const int half = buckets / 2;
  const Value bucket = logarithmic_bucket(abs(distance), half, max_distance);
  const Value is_ahead = distance > 0;
  return bucket + select(is_ahead, half, 0);
}

Value expand(const BlockInput& input) {
  const int buckets = input.extent("table", 0);
  if (input.arguments.choice("kind") != 0 && buckets > kMostBuckets) {
    input.mistake("block.argument-tensor", "table of relative_bias has more than 512 buckets",
                  "use kind = direct for one bucket a distance");
    return input.x;
  }
  const Value position = aligned_query(input);
  const Value distance = input.index(Axis::j) - position;
  const Value bucket = bucket_of(input, distance, buckets);
  return input.x + input.element("table", {input.index(Axis::h), bucket});
}

}  // namespace

constinit const Block kRelativeBias{
    .name = "relative_bias",
    .stages = kStages,
    .parameters = kParameters,
    .about = "Adds a learned number for every head and bucket of distances.",
    .math = "x + table[h, bucket(j - p)], p = i + skv - sq (bottom_right) or i (top_left)",
    .latex = "x + T_{h, \\beta(j - p)}",
    .source = "Raffel et al., T5 (2020); Shaw et al. (2018)",
    .expand = expand,
};

}  // namespace attnfuse
