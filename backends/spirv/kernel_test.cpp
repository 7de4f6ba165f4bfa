// Emitted kernels: accepted by the validator, and equal to the reference on the device present.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "backends/spirv/backend.h"
#include "backends/spirv/glslang.h"
#include "backends/spirv/targets.h"
#include "passes/passes.h"
#include "runtime/execute.h"
#include "runtime/process.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

using namespace attnfuse;
using attnfuse::testing::Program;

namespace {

ProgramInfo shape(DType dtype, int heads, int kv_heads, int dim, int v_dim) {
  return {"case", heads, kv_heads, dim, v_dim, dtype, {}};
}

// Scores times 1/sqrt(dim); causal with rows aligned at the end, or no mask.
Graph scaled(const ProgramInfo& info, bool causal) {
  Program program(info);
  Graph& g = program.graph;
  const NodeId score =
      program.op(ScalarOp::mul, program.scores(), g.constant(1 / std::sqrt(double(info.head_dim))));
  if (!causal) return program.finish(score, program.all());
  const NodeId shift = program.op(ScalarOp::isub, g.add(SizeOf{Size::skv}), g.add(SizeOf{Size::sq}));
  return program.finish(score, program.op(ScalarOp::ile, g.index(Axis::j),
                                          program.op(ScalarOp::iadd, g.index(Axis::i), shift)));
}

// Rotated queries and keys, soft cap, ALiBi slopes, sinks: what expressions reach.
Graph rich(const ProgramInfo& info) {
  Program program(info);
  Graph& g = program.graph;
  const int half = info.head_dim / 2;
  const auto rotate = [&](NodeId x, Axis position) {
    const NodeId pair = g.apply(
        ScalarOp::to_f32, {program.op(ScalarOp::imod, g.index(Axis::d), g.constant(half, ValueType::i32))});
    const NodeId frequency = g.apply(ScalarOp::exp2, {program.op(ScalarOp::mul, pair, g.constant(-0.25))});
    const NodeId angle = program.op(ScalarOp::mul, g.apply(ScalarOp::to_f32, {g.index(position)}), frequency);
    const NodeId partner = g.add(Partner{RotaryPairs::half, info.head_dim}, {x});
    const NodeId low = program.op(ScalarOp::ilt, g.index(Axis::d), g.constant(half, ValueType::i32));
    const NodeId signed_partner =
        g.apply(ScalarOp::select, {low, g.apply(ScalarOp::neg, {partner}), partner});
    return program.op(ScalarOp::add, program.op(ScalarOp::mul, x, g.apply(ScalarOp::cos, {angle})),
                      program.op(ScalarOp::mul, signed_partner, g.apply(ScalarOp::sin, {angle})));
  };
  const NodeId scores = g.add(Scores{}, {rotate(program.q, Axis::i), rotate(program.k, Axis::j)});
  const NodeId capped = program.op(
      ScalarOp::mul, g.apply(ScalarOp::tanh, {program.op(ScalarOp::mul, scores, g.constant(0.05))}),
      g.constant(20));
  const NodeId slope = program.captured("slope", DType::f32, {{Size::heads}}, {g.index(Axis::h)});
  const NodeId distance =
      g.apply(ScalarOp::to_f32, {program.op(ScalarOp::isub, g.index(Axis::j), g.index(Axis::i))});
  const NodeId score = program.op(ScalarOp::add, capped, program.op(ScalarOp::mul, slope, distance));
  const NodeId sink = program.captured("sink", DType::f32, {{Size::heads}}, {g.index(Axis::h)});
  const NodeId mask =
      program.op(ScalarOp::logical_and, program.op(ScalarOp::ile, g.index(Axis::j), g.index(Axis::i)),
                 program.op(ScalarOp::ilt, program.op(ScalarOp::isub, g.index(Axis::i), g.index(Axis::j)),
                            g.constant(20, ValueType::i32)));
  return program.finish(score, mask, sink);
}

HostTensors inputs(const Graph& graph, Sizes sizes) {
  HostTensors tensors = testing::inputs_for(graph.info(), sizes);
  for (const TensorInfo& tensor : graph.tensors())
    if (tensor.role == TensorRole::captured)
      tensors[tensor.name] = testing::filled(tensor.dtype, {graph.info().heads}, 7, 0.3);
  return tensors;
}

TileProgram lowered(const Graph& graph, const Target& target) {
  auto program = compile_to_tiles(graph, target);
  REQUIRE_MESSAGE(program.ok(), render(program.errors()));
  return std::move(program).value();
}

struct Outputs {
  HostTensor o, lse;
};

Outputs execute(Device& device, const Target& target, const Graph& graph, const HostTensors& tensors,
                Sizes sizes) {
  const TileProgram program = lowered(graph, target);
  const auto source = spirv::backend().emit(program);
  REQUIRE(source.ok());
  const auto binary = spirv::backend().assemble(*source, target);
  REQUIRE_MESSAGE(binary.ok(), render(binary.errors()), "\n", source->text);
  const auto module = device.load(*binary);
  REQUIRE_MESSAGE(module.ok(), render(module.errors()));
  const ProgramInfo& info = graph.info();
  Outputs outputs{
      HostTensor::zeros(
          TensorLayout::contiguous(info.dtype, {sizes.batch, info.heads, sizes.sq, info.v_head_dim})),
      HostTensor::zeros(TensorLayout::contiguous(DType::f32, {sizes.batch, info.heads, sizes.sq}))};
  std::vector<std::shared_ptr<Buffer>> buffers;
  DeviceTensors placed;
  const auto place = [&](const std::string& name, const HostTensor& tensor) {
    buffers.push_back(*device.allocate(tensor.bytes.size()));
    REQUIRE(device.upload(*buffers.back(), 0, tensor.bytes).ok());
    placed[name] = {tensor.layout, buffers.back()->address()};
  };
  for (const auto& [name, tensor] : tensors) place(name, tensor);
  for (auto* output : {&outputs.o, &outputs.lse}) std::ranges::fill(output->bytes, std::byte(0xff));  // NaN
  place("o", outputs.o);
  place("lse", outputs.lse);
  const Status launched =
      device.launch(**module, launch_shape(program, sizes), *argument_block(program, placed, sizes, device));
  REQUIRE_MESSAGE(launched.ok(), render(launched.errors()));
  REQUIRE(device.download(*buffers[buffers.size() - 2], 0, outputs.o.bytes).ok());
  REQUIRE(device.download(*buffers.back(), 0, outputs.lse.bytes).ok());
  return outputs;
}

double error(const HostTensor& got, const std::vector<double>& wanted) {
  double worst = 0;
  const auto size = std::size_t(size_in_bytes(got.layout.dtype));
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const double value = load_element(got.layout.dtype, &got.bytes[k * size]);
    if (value == wanted[k]) continue;  // infinities
    const double difference = std::abs(value - wanted[k]) / std::max(1.0, std::abs(wanted[k]));
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
  }
  return worst;
}

// What rounding to the program's dtype alone costs, with room for another order of summation.
double tolerance(const std::vector<double>& exact, const std::vector<double>& rounded) {
  double worst = 0;
  for (std::size_t k = 0; k < exact.size(); ++k)
    if (std::isfinite(exact[k]))
      worst = std::max(worst, std::abs(exact[k] - rounded[k]) / std::max(1.0, std::abs(exact[k])));
  return 1e-5 + 3 * worst;
}

void check(Device& device, const Target& target, const Graph& graph, Sizes sizes) {
  CAPTURE(target.name);
  CAPTURE(name(graph.info().dtype));
  CAPTURE(sizes.sq);
  CAPTURE(sizes.skv);
  const HostTensors tensors = inputs(graph, sizes);
  const auto wanted = reference(graph, tensors);
  const auto rounded = reference(graph, tensors, Rounding::naive);
  REQUIRE_MESSAGE(wanted.ok(), render(wanted.errors()));
  const Outputs got = execute(device, target, graph, tensors, sizes);
  CHECK(error(got.o, wanted->o) < tolerance(wanted->o, rounded->o));
  CHECK(error(got.lse, wanted->lse) < tolerance(wanted->lse, rounded->lse));
}

std::shared_ptr<Device> device() {
  if (!spirv::has_glslang()) {
    MESSAGE("skipped: built without glslang");
    return nullptr;
  }
  const auto opened = spirv::backend().open(0);
  if (opened) return *opened;
  MESSAGE("skipped: ", render(opened.errors()));
  return nullptr;
}

}  // namespace

TEST_SUITE("spirv") {
  TEST_CASE("emitted kernels are valid SPIR-V on every target") {
    const auto validator = find_program({"spirv-val"});
    if (!spirv::has_glslang() || !validator) {
      MESSAGE("skipped: ", spirv::has_glslang() ? "no spirv-val in PATH" : "built without glslang");
      return;
    }
    const auto folder = TemporaryDirectory::create();
    REQUIRE(folder.ok());
    for (const Target& target : spirv::targets())
      for (DType dtype : {DType::f16, DType::bf16, DType::f32}) {
        CAPTURE(target.name);
        const TileProgram program = lowered(rich(shape(dtype, 4, 2, 64, 40)), target);
        const auto source = spirv::backend().emit(program);
        REQUIRE(source.ok());
        if (program.unit.opaque && !spirv::knows_extension("GL_KHR_cooperative_matrix")) {
          MESSAGE("skipped: this glslang knows no cooperative matrices");
          continue;
        }
        const auto binary = spirv::backend().assemble(*source, target);
        REQUIRE_MESSAGE(binary.ok(), render(binary.errors()), "\n", source->text);
        const auto file = folder->path() / "kernel.spv";
        REQUIRE(write_file(file, {reinterpret_cast<const char*>(binary->bytes.data()), binary->bytes.size()})
                    .ok());
        const auto result = run_process({*validator, "--target-env", "vulkan1.2", file.string()});
        REQUIRE(result.ok());
        // Validators before 2023.5 stop at the capability of the matrices, number 6022.
        const bool too_old = program.unit.opaque && result->output.find("6022") != std::string::npos;
        CHECK_MESSAGE((result->exit_code == 0 || too_old), result->output);
      }
  }

  // A kernel takes the CPU driver a second or two to compile: few kernels, much in each.
  TEST_CASE("kernels equal the reference on the best target of the device") {
    const auto on = device();
    if (on == nullptr) return;
    const Target target = on->target();
    check(*on, target, scaled(shape(DType::f16, 2, 1, 32, 32), true), {1, 70, 41});  // rows without keys
    check(*on, target, scaled(shape(DType::bf16, 2, 1, 64, 64), false), {2, 37, 50});
    check(*on, target, scaled(shape(DType::f32, 1, 1, 8, 24), true), {1, 5, 9});
    check(*on, target, rich(shape(DType::f16, 4, 2, 64, 40)), {1, 45, 45});
  }

  TEST_CASE("head dim 256 fits every target") {
    const auto on = device();
    if (on == nullptr) return;
    for (const Target& target : on->targets())
      check(*on, target, scaled(shape(DType::f32, 1, 1, 256, 256), false), {1, 9, 19});
  }
}
