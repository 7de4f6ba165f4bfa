#include "bench/rotation.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/format.h>

#include "conformance/random.h"
#include "frontend/parser.h"
#include "runtime/cache.h"
#include "runtime/executable.h"
#include "runtime/plan_rotation.h"

namespace attnfuse::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// A short random sequence over all of a buffer.
Status fill(Device& device, Buffer& buffer, DType dtype, std::uint64_t seed) {
  constexpr std::size_t kElements = 4093, kPiece = std::size_t(1) << 24;
  conformance::Random random(seed);
  const auto size = std::size_t(size_in_bytes(dtype));
  std::vector<std::byte> pattern(kElements * size), piece(std::min(kPiece, buffer.size()));
  for (std::size_t n = 0; n < pattern.size(); n += size) store_element(dtype, &pattern[n], random.normal());
  for (std::size_t n = 0; n < piece.size(); n += pattern.size())
    std::copy_n(pattern.begin(), std::min(pattern.size(), piece.size() - n),
                piece.begin() + std::ptrdiff_t(n));
  for (std::size_t at = 0; at < buffer.size(); at += piece.size()) {
    const std::span<const std::byte> part(piece.data(), std::min(piece.size(), buffer.size() - at));
    if (auto status = device.upload(buffer, at, part); !status) return status;
  }
  return Unit{};
}

std::int64_t allocation(const RotationSweep& sweep, bool keys) {
  const std::int64_t prefill = std::max(sweep.tokens, sweep.last), decode = sweep.decode_batch * sweep.last;
  const int least = *std::ranges::min_element(sweep.groups);
  return keys ? std::max(prefill, decode) * (sweep.heads / least) * sweep.head_dim
              : std::max(prefill, sweep.decode_batch) * sweep.heads * sweep.head_dim;
}

class Sweeper {
 public:
  Sweeper(const Machine& machine, const RotationSweep& sweep, DType dtype)
      : machine_(machine), sweep_(sweep), dtype_(dtype) {}

  Status allocate() {
    const auto bytes = [&](bool keys) {
      return std::size_t(allocation(sweep_, keys)) * std::size_t(size_in_bytes(dtype_));
    };
    std::uint64_t seed = 1;
    for (const char* name : {"q", "k", "v", "o", "lse"}) {
      const bool keys = name[0] == 'k' || name[0] == 'v';
      const std::size_t size = name[0] == 'l' ? bytes(false) * 4 / std::size_t(sweep_.head_dim) : bytes(keys);
      auto buffer = machine_.device->allocate(size);
      if (!buffer) return buffer.errors();
      if (auto status = fill(*machine_.device, **buffer, dtype_, seed++); !status) return status;
      buffers_[name] = *buffer;
    }
    return Unit{};
  }

  // The predictions of a point, and what runs each of them.
  Result<RotationPoint> predict(bool decode, int group, std::int64_t length) {
    const auto graph = program(group);
    if (!graph) return graph.errors();
    RotationPoint point{decode, group, {}, {}};
    point.sizes = decode ? CallSizes{sweep_.decode_batch, 1, length}
                         : CallSizes{std::max<std::int64_t>(1, sweep_.tokens / length), length, length};
    const auto costs = predict_rotation(**graph, machine_.target, {}, point.sizes);
    if (!costs) return costs.errors();
    for (const RotationCost& cost : *costs)
      if (decode || !cost.cached)
        point.times.push_back({cost.rotation, cost.cached, cost.total_us(), {}, {}});
    return point;
  }

  void measure(RotationPoint& point, double seconds) {
    std::vector<std::vector<double>> times(point.times.size());
    constexpr int kMost = 40;
    const auto begin = Clock::now();
    for (int round = 0; round < kMost && (round < 2 || since(begin) < seconds); ++round)
      for (std::size_t n = 0; n < point.times.size(); ++n) {
        RotationTime& time = point.times[n];
        if (!time.failure.empty()) continue;
        const auto milliseconds = launch(point, time);
        if (!milliseconds)
          time.failure = milliseconds.errors().front().message;
        else if (round > 0)
          times[n].push_back(*milliseconds * 1000);  // the first round warms up
      }
    for (std::size_t n = 0; n < times.size(); ++n) {
      if (times[n].empty()) continue;
      std::nth_element(times[n].begin(), times[n].begin() + std::ptrdiff_t(times[n].size() / 2),
                       times[n].end());
      point.times[n].measured_us = times[n][times[n].size() / 2];
    }
  }

 private:
  Result<const Graph*> program(int group) {
    if (const auto found = graphs_.find(group); found != graphs_.end()) return &found->second;
    auto graph = rotation_program(sweep_, group, dtype_);
    if (!graph) return graph.errors();
    return &graphs_.emplace(group, std::move(graph).value()).first->second;
  }

  Result<Executable*> executable(int group, const RotationTime& time) {
    const auto key = std::tuple(group, time.rotation, time.cached);
    if (const auto found = executables_.find(key); found != executables_.end()) return found->second.get();
    const auto graph = program(group);
    if (!graph) return graph.errors();
    CompileOptions options;
    options.rotation = time.rotation;
    auto made =
        Executable::prepare(**graph, machine_,
                            rotation_planner(**graph, machine_, options, KernelCache::standard(),
                                             time.cached ? TransformRows::newest : TransformRows::all));
    if (!made) return made.errors();
    return executables_.emplace(key, std::move(made).value()).first->second.get();
  }

  Result<double> launch(const RotationPoint& point, const RotationTime& time) {
    auto made = executable(point.group, time);
    if (!made) return made.errors();
    const std::int64_t b = point.sizes.batch, sq = point.sizes.sq, skv = point.sizes.skv;
    const std::int64_t heads = sweep_.heads, kv_heads = heads / point.group, dim = sweep_.head_dim;
    DeviceTensors tensors;
    const auto bind = [&](const char* name, DType dtype, std::vector<std::int64_t> shape) {
      tensors[name] = {TensorLayout::contiguous(dtype, std::move(shape)), buffers_.at(name)->address()};
    };
    bind("q", dtype_, {b, heads, sq, dim});
    bind("k", dtype_, {b, kv_heads, skv, dim});
    bind("v", dtype_, {b, kv_heads, skv, dim});
    bind("o", dtype_, {b, heads, sq, dim});
    bind("lse", DType::f32, {b, heads, sq});
    const auto bound = (*made)->bind(tensors);
    if (!bound) return bound.errors();
    const auto bytes = (*made)->workspace_bytes({b, sq, skv});
    if (!bytes) return bytes.errors();
    if (*bytes > workspace_bytes_) {
      workspace_.reset();
      auto buffer = machine_.device->allocate(*bytes);
      if (!buffer) return buffer.errors();
      workspace_ = *buffer;
      workspace_bytes_ = *bytes;
      // What a cache holds from earlier steps.
      if (auto status = fill(*machine_.device, *workspace_, dtype_, 9); !status) return status.errors();
    }
    LaunchSite site;
    if (workspace_) site = {nullptr, workspace_->address(), workspace_bytes_};
    return machine_.device->time([&] { return (*made)->launch(*bound, site); });
  }

  const Machine& machine_;
  const RotationSweep& sweep_;
  DType dtype_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;
  std::shared_ptr<Buffer> workspace_;
  std::size_t workspace_bytes_ = 0;
  std::map<int, Graph> graphs_;
  std::map<std::tuple<int, Rotation, bool>, std::shared_ptr<Executable>> executables_;
};

std::string progress_line(const RotationPoint& point) {
  std::string text = fmt::format("{} b={} sq={} skv={} group {}:", point.decode ? "decode " : "prefill",
                                 point.sizes.batch, point.sizes.sq, point.sizes.skv, point.group);
  for (const RotationTime& time : point.times)
    text += fmt::format(" {}{} {:.1f}/{}", name(time.rotation), time.cached ? "+cache" : "",
                        time.predicted_us, time.measured_us ? fmt::format("{:.1f}", *time.measured_us) : "-");
  text += fmt::format(" us predicted/measured; choice {}", name(point.predicted()));
  if (const auto excess = point.excess())
    text += fmt::format(", best {}, +{:.1f}%", name(*point.measured()), *excess * 100);
  return text;
}

}  // namespace

Rotation RotationPoint::predicted() const {
  const RotationTime* best = nullptr;
  for (const RotationTime& time : times)
    if (!time.cached && (!best || time.predicted_us < best->predicted_us)) best = &time;
  return best ? best->rotation : Rotation::fuse;
}

std::optional<Rotation> RotationPoint::measured() const {
  const RotationTime* best = nullptr;
  for (const RotationTime& time : times)
    if (!time.cached && time.measured_us && (!best || *time.measured_us < *best->measured_us)) best = &time;
  return best ? std::optional(best->rotation) : std::nullopt;
}

std::optional<double> RotationPoint::excess() const {
  const auto fastest = measured();
  if (!fastest) return {};
  std::optional<double> chosen, best;
  for (const RotationTime& time : times) {
    if (time.cached || !time.measured_us) continue;
    if (time.rotation == predicted()) chosen = time.measured_us;
    if (time.rotation == *fastest) best = time.measured_us;
  }
  if (!chosen || !best) return {};
  return *chosen / *best - 1;
}

Result<Graph> rotation_program(const RotationSweep& sweep, int group, DType dtype) {
  return parse_one(
      fmt::format("attention rotation {{ heads {} kv_heads {} head_dim {} dtype {} "
                  "query rope(theta = 500000) key rope(theta = 500000) score scale(1 / sqrt({})) "
                  "mask causal }}",
                  sweep.heads, sweep.heads / group, sweep.head_dim, name(dtype), sweep.head_dim));
}

Result<RotationReport> bench_rotation(const Machine& machine, const RotationSweep& sweep,
                                      const std::function<void(const std::string&)>& progress) {
  const auto begin = Clock::now();
  const std::vector<DType>& operands = machine.target.units.front().operands;
  const bool has_bf16 = std::ranges::find(operands, DType::bf16) != operands.end();
  const DType dtype = has_bf16 ? DType::bf16 : DType::f16;
  RotationReport report{machine.device->name(), machine.target.name, std::string(name(dtype)), sweep, {}};
  Sweeper sweeper(machine, sweep, dtype);
  for (std::int64_t length = sweep.first; length <= sweep.last; length *= 2)
    for (int group : sweep.groups)
      for (bool decode : {false, true}) {
        auto point = sweeper.predict(decode, group, length);
        if (!point) return point.errors();
        report.points.push_back(std::move(point).value());
      }
  if (auto status = sweeper.allocate(); !status) return status.errors();
  for (std::size_t n = 0; n < report.points.size(); ++n) {
    const double left = sweep.seconds - since(begin);
    if (left > 0) sweeper.measure(report.points[n], left / double(report.points.size() - n));
    progress(progress_line(report.points[n]));
  }
  return report;
}

}  // namespace attnfuse::bench
