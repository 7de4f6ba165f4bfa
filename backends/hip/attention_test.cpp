// Whole attention kernels: emitted HIP source executed by the emulator, against the double-precision
// reference.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "backends/hip/backend.h"
#include "backends/hip/emulator/emulator.h"
#include "backends/hip/targets.h"
#include "passes/passes.h"
#include "runtime/execute.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

namespace attnfuse::hip {
namespace {

using emulator::Order;
using testing::Program;

Graph scaled_softmax(const ProgramInfo& info) {
  Program p(info);
  const NodeId scaled = p.op(ScalarOp::mul, p.scores(), p.graph.constant(1 / std::sqrt(info.head_dim)));
  return p.finish(scaled, p.all());
}

Result<HostTensors> run(const Graph& graph, const Target& target, const HostTensors& inputs, Sizes sizes,
                        Order order) {
  const Backend& backend = emulated_backend();
  const Result<Schedule> schedule = choose_schedule(graph, target, 16);
  if (!schedule) return schedule.errors();
  const Result<TileProgram> program = lower_forward(graph, target, *schedule);
  if (!program) return program.errors();
  if (const Diagnostics mistakes = verify(*program); !mistakes.empty()) return mistakes;
  const Result<Source> source = backend.emit(*program);
  if (!source) return source.errors();
  const Result<Binary> binary = backend.assemble(*source, target);
  if (!binary) return binary.errors();
  const std::shared_ptr<Device> device = make_emulator({target}, {order, {}, 3});
  const Result<std::shared_ptr<Module>> module = device->load(*binary);
  if (!module) return module.errors();

  const ProgramInfo& info = graph.info();
  HostTensors all = inputs;
  all["o"] = HostTensor::zeros(
      TensorLayout::contiguous(info.dtype, {sizes.batch, info.heads, sizes.sq, info.v_head_dim}));
  all["lse"] = HostTensor::zeros(TensorLayout::contiguous(DType::f32, {sizes.batch, info.heads, sizes.sq}));
  DeviceTensors bound;
  std::map<std::string, std::shared_ptr<Buffer>> buffers;
  for (const auto& [name, tensor] : all) {
    buffers[name] = *device->allocate(tensor.bytes.size());
    if (Status status = device->upload(*buffers[name], 0, tensor.bytes); !status) return status.errors();
    bound[name] = {tensor.layout, buffers[name]->address()};
  }
  const auto params = argument_block(*program, bound, sizes, *device);
  if (!params) return params.errors();
  if (Status status = device->launch(**module, launch_shape(*program, sizes), *params); !status)
    return status.errors();
  HostTensors outputs;
  for (const char* name : {"o", "lse"}) {
    outputs[name] = all[name];
    if (Status status = device->download(*buffers[name], 0, outputs[name].bytes); !status)
      return status.errors();
  }
  return outputs;
}

double largest_error(const HostTensor& got, const std::vector<double>& wanted) {
  const int size = size_in_bytes(got.layout.dtype);
  double worst = 0;
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    const double error =
        std::abs(load_element(got.layout.dtype, &got.bytes[n * std::size_t(size)]) - wanted[n]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  return worst;
}

}  // namespace

TEST_CASE("attention without a mask is right on every architecture, dtype and wave order") {
  for (const Target& target : targets("hip-cpu"))
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
      for (const int head_dim : {64, 80, 128}) {
        if (head_dim == 80 && dtype != DType::f16) continue;
        const ProgramInfo info{"plain", 2, 1, head_dim, head_dim, dtype, {}};
        const Sizes sizes{1, 70, 90};
        const Graph graph = scaled_softmax(info);
        const HostTensors inputs = testing::inputs_for(info, sizes);
        const Result<ReferenceOutputs> wanted = reference(graph, inputs);
        REQUIRE(wanted.ok());
        INFO(target.name, " ", name(dtype), " head_dim ", head_dim);
        const Result<HostTensors> got = run(graph, target, inputs, sizes, Order::mixed);
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

}  // namespace attnfuse::hip
