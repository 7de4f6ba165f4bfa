// Whole attention kernels: emitted CUDA source executed by the emulator, against the double-precision
// reference.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "backends/cuda/backend.h"
#include "backends/cuda/emulator/emulator.h"
#include "runtime/cache.h"
#include "runtime/execute.h"
#include "runtime/machine.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

namespace attnfuse::cuda {
namespace {

using attnfuse::testing::Program;

// Keys up to the query's position only.
Graph causal_softmax(const ProgramInfo& info) {
  Program p(info);
  const NodeId scaled = p.op(ScalarOp::mul, p.scores(), p.graph.constant(1 / std::sqrt(info.head_dim)));
  return p.finish(scaled, p.op(ScalarOp::ige, p.graph.add(Index{Axis::i}), p.graph.add(Index{Axis::j})));
}

double largest_error(const HostTensor& got, const std::vector<double>& wanted) {
  const int size = size_in_bytes(got.layout.dtype);
  double worst = 0;
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    const double value = load_element(got.layout.dtype, &got.bytes[n * std::size_t(size)]);
    const double error = value == wanted[n] ? 0 : std::abs(value - wanted[n]);  // infinities are equal
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

TEST_CASE("emulated NVIDIA machines differ from the real ones in name and size alone") {
  const Backend& real = backend();
  for (const Target& target : emulated_targets()) {
    bool found = false;
    for (const Target& other : real.targets()) {
      if (other.arch != target.arch) continue;
      found = true;
      CHECK(target.name == "cuda-cpu:" + other.arch);
      CHECK(target.shared_bytes == other.shared_bytes);
      CHECK(target.units.size() == other.units.size());
    }
    CHECK(found);
  }
}

TEST_CASE("causal attention is right on every emulated architecture and dtype") {
  for (const Target& target : emulated_targets())
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
      for (const int head_dim : {64, 80}) {
        if (head_dim == 80 && dtype != DType::bf16) continue;
        const ProgramInfo info{"causal", 2, 1, head_dim, head_dim, dtype, {}};
        const Graph graph = causal_softmax(info);
        const HostTensors inputs = attnfuse::testing::inputs_for(info, {1, 150, 170});
        const Result<ReferenceOutputs> wanted = reference(graph, inputs);
        REQUIRE(wanted.ok());
        INFO(target.name, " ", name(dtype), " head_dim ", head_dim);
        const std::shared_ptr<Device> device = make_emulator({target});
        const Result<HostTensors> got =
            run(graph, {&emulated_backend(), device, target}, inputs, KernelCache::standard());
        if (!got && got.errors()[0].code == "toolkit.missing") {
          MESSAGE("SKIPPED: " << render(got.errors()));
          return;
        }
        REQUIRE_MESSAGE(got.ok(), render(got.errors()));
        const double allowed = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-3 : 1.5e-2;
        CHECK(largest_error(got->at("o"), wanted->o) < allowed);
        CHECK(largest_error(got->at("lse"), wanted->lse) < 1e-4);
      }
}

}  // namespace attnfuse::cuda
