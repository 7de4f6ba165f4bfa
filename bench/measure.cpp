#include "bench/measure.h"

#include <algorithm>

#include "bench/work.h"
#include "conformance/random.h"
#include "conformance/stored.h"

namespace attnfuse::bench {
namespace {

using conformance::Inputs;

// A short random sequence, repeated: enough variety for timing, quick to make.
void fill(HostTensor& tensor, conformance::Random& random) {
  const auto size = std::size_t(size_in_bytes(tensor.layout.dtype));
  std::vector<std::byte> pattern(4093 * size);
  const bool is_float = value_type(tensor.layout.dtype) == ValueType::f32;
  for (std::size_t n = 0; n < pattern.size(); n += size)
    store_element(tensor.layout.dtype, &pattern[n], is_float ? random.normal() : double(random.below(2)));
  for (std::size_t n = 0; n < tensor.bytes.size(); n += pattern.size())
    std::copy_n(pattern.begin(), std::min(pattern.size(), tensor.bytes.size() - n),
                tensor.bytes.begin() + std::ptrdiff_t(n));
}

Inputs bench_inputs(const Graph& graph, const Sizes& sizes) {
  Inputs inputs;
  for (const TensorInfo& tensor : graph.tensors()) {
    if (tensor.role == TensorRole::constant) continue;
    HostTensor host = HostTensor::zeros(
        TensorLayout::contiguous(tensor.dtype, conformance::shape_of(graph, tensor, sizes)));
    conformance::Random random(conformance::hash_of(tensor.name.c_str()));
    fill(host, random);
    inputs.offsets[tensor.name] = 0;
    inputs.tensors.emplace(tensor.name, std::move(host));
  }
  return inputs;
}

}  // namespace

Result<Measurement> measure(conformance::Executor& executor, const Graph& graph,
                            const std::string& program_text, const Sizes& sizes, int launches,
                            Rotation rotation) {
  conformance::Case c;  // every sequence is as long as the longest
  c.batch = sizes.batch, c.sq = sizes.sq, c.skv = sizes.skv;
  const conformance::Stored stored = conformance::store(graph, c, bench_inputs(graph, sizes));
  auto call =
      executor.prepare(graph, program_text, stored.inputs, stored.sizes, conformance::Layout::bhsd, rotation);
  if (!call) return call.errors();
  const auto once = [&] { return executor.device().time([&] { return executor.launch(*call); }); };
  constexpr int kWarmUp = 2;
  std::vector<double> times;
  for (int n = 0; n < kWarmUp + launches; ++n) {
    auto milliseconds = once();
    if (!milliseconds) return milliseconds.errors();
    if (n >= kWarmUp) times.push_back(*milliseconds);
  }
  std::ranges::sort(times);
  return Measurement{times[times.size() / 2],
                     times.front(),
                     times.back(),
                     launches,
                     matrix_flops(graph, sizes),
                     call->plan->steps.back().kernel->program.schedule};
}

}  // namespace attnfuse::bench
