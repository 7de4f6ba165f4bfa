#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/plot.h"
#include "bench/rotation.h"

namespace attnfuse::bench {
namespace {

std::string label(const RotationTime& time) {
  return std::string(name(time.rotation)) + (time.cached ? "+cache" : "");
}

// The points of one curve family, by length.
std::vector<const RotationPoint*> of_kind(const RotationReport& report, bool decode, int group) {
  std::vector<const RotationPoint*> points;
  for (const RotationPoint& point : report.points)
    if (point.decode == decode && point.group == group) points.push_back(&point);
  std::ranges::sort(points, [](const auto* a, const auto* b) { return a->sizes.skv < b->sizes.skv; });
  return points;
}

Plot plot(const RotationReport& report, bool decode, int group) {
  Plot plot{
      fmt::format("{}, {}, {}: {} heads, {} of them to a key head, {}; solid measured, dashed predicted",
                  report.device, report.target, report.dtype, report.sweep.heads, group,
                  decode ? fmt::format("decoding at batch {}", report.sweep.decode_batch)
                         : fmt::format("prefill of {} tokens", report.sweep.tokens)),
      decode ? "keys" : "length",
      "us",
      {}};
  const auto points = of_kind(report, decode, group);
  if (points.empty()) return plot;
  for (std::size_t n = 0; n < points.front()->times.size(); ++n) {
    Curve predicted{label(points.front()->times[n]) + ", predicted", {}, int(n), true};
    Curve measured{label(points.front()->times[n]), {}, int(n), false};
    for (const RotationPoint* point : points) {
      if (n >= point->times.size()) continue;
      const RotationTime& time = point->times[n];
      predicted.points.emplace_back(double(point->sizes.skv), time.predicted_us);
      if (time.measured_us) measured.points.emplace_back(double(point->sizes.skv), *time.measured_us);
    }
    plot.curves.push_back(std::move(measured));
    plot.curves.push_back(std::move(predicted));
  }
  return plot;
}

std::string length_text(std::optional<std::int64_t> length) {
  return length ? std::to_string(*length) : "none";
}

}  // namespace

std::optional<std::int64_t> crossover(const RotationReport& report, bool decode, int group, bool measured) {
  std::optional<std::int64_t> from;
  for (const RotationPoint* point : of_kind(report, decode, group)) {
    const std::optional<Rotation> best = measured ? point->measured() : std::optional(point->predicted());
    if (!best) continue;
    if (*best == Rotation::fuse)
      from.reset();
    else if (!from)
      from = point->sizes.skv;
  }
  return from;
}

std::string json(const RotationReport& report) {
  nlohmann::ordered_json document{{"device", report.device},
                                  {"target", report.target},
                                  {"dtype", report.dtype},
                                  {"heads", report.sweep.heads},
                                  {"head_dim", report.sweep.head_dim}};
  for (const RotationPoint& point : report.points) {
    nlohmann::ordered_json entry{{"kind", point.decode ? "decode" : "prefill"},
                                 {"group", point.group},
                                 {"batch", point.sizes.batch},
                                 {"sq", point.sizes.sq},
                                 {"skv", point.sizes.skv},
                                 {"choice", name(point.predicted())}};
    if (const auto best = point.measured()) entry["best"] = name(*best);
    if (const auto excess = point.excess()) entry["excess"] = *excess;
    for (const RotationTime& time : point.times) {
      nlohmann::ordered_json row{{"rotation", label(time)}, {"predicted_us", time.predicted_us}};
      if (time.measured_us) row["measured_us"] = *time.measured_us;
      if (!time.failure.empty()) row["failure"] = time.failure;
      entry["times"].push_back(std::move(row));
    }
    document["points"].push_back(std::move(entry));
  }
  return document.dump(1) + "\n";
}

std::string svg(const RotationReport& report) {
  std::vector<Plot> plots;
  for (bool decode : {false, true})
    for (int group : report.sweep.groups) plots.push_back(plot(report, decode, group));
  return svg(plots);
}

std::string summary(const RotationReport& report) {
  std::string text;
  for (bool decode : {false, true})
    for (int group : report.sweep.groups)
      text += fmt::format("{} group {}: a pre-pass pays from {} on by the model, {} by the clock\n",
                          decode ? "decode " : "prefill", group,
                          length_text(crossover(report, decode, group, false)),
                          length_text(crossover(report, decode, group, true)));
  const RotationPoint* worst = nullptr;
  int measured = 0, within = 0;
  constexpr double kGoal = 0.03;
  for (const RotationPoint& point : report.points) {
    const auto excess = point.excess();
    if (!excess) continue;
    ++measured;
    within += *excess <= kGoal;
    if (!worst || *excess > *worst->excess()) worst = &point;
  }
  text += fmt::format("{} of {} points measured; the choice is within 3% of the best at {}", measured,
                      report.points.size(), within);
  if (worst)
    text += fmt::format("; worst +{:.1f}% ({} skv={} group {}: {} instead of {})", *worst->excess() * 100,
                        worst->decode ? "decode" : "prefill", worst->sizes.skv, worst->group,
                        name(worst->predicted()), name(*worst->measured()));
  return text + "\n";
}

}  // namespace attnfuse::bench
