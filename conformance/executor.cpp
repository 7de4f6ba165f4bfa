#include "conformance/executor.h"

#include <fmt/format.h>

#include "runtime/compile.h"

namespace attnfuse::conformance {
namespace {

HostTensor poisoned(const Placement& placement) {
  HostTensor tensor{placement.layout, {}};
  const auto bytes =
      std::size_t(placement.layout.span_elements()) * std::size_t(size_in_bytes(placement.layout.dtype));
  tensor.bytes.assign(bytes, std::byte{0xff});
  return tensor;
}

void append_elements(const HostTensor& tensor, std::vector<double>& values, std::vector<std::byte>& bits) {
  const std::size_t size = std::size_t(size_in_bytes(tensor.layout.dtype));
  for_each_index(tensor.layout.shape, [&](std::span<const std::int64_t> index) {
    values.push_back(tensor.get(index));
    const auto at = tensor.bytes.begin() + std::ptrdiff_t(std::size_t(tensor.layout.offset(index)) * size);
    bits.insert(bits.end(), at, at + std::ptrdiff_t(size));
  });
}

}  // namespace

Result<Executor> Executor::open(std::string_view target_name) {
  auto target = find_target(target_name);
  if (!target) return target.errors();
  const Backend* backend = find_backend(target->backend);
  ATTNFUSE_CHECK(backend, "a target without backend: " + target->name);
  auto device = backend->open(0);
  if (!device) return device.errors();
  for (const Target& runs : (*device)->targets())
    if (runs.name == target->name) return Executor(*backend, *device, runs);
  // A backend's name alone means what its device runs best.
  if (target_name == target->backend) return Executor(*backend, *device, (*device)->target());
  return Diagnostic{"device.wrong-target",
                    fmt::format("{} does not run {}", (*device)->name(), target->name),
                    {},
                    "name one of its targets: " + (*device)->target().name};
}

Result<const Kernel*> Executor::kernel(const Graph& graph, const std::string& program_text,
                                       int vector_bytes) {
  std::string key = fmt::format("{} {}", vector_bytes, program_text);
  if (const auto found = kernels_.find(key); found != kernels_.end()) return found->second.get();
  auto compiled =
      compile(graph, *backend_, target_, {.vector_bytes = vector_bytes, .schedule = {}, .observe = {}});
  if (!compiled) return compiled.errors();
  auto module = device_->load(compiled->binary);
  if (!module) return module.errors();
  auto made = std::move(compiled).value();
  auto kernel = std::make_unique<Kernel>(Kernel{std::move(made.program), std::move(made.binary), *module});
  return kernels_.emplace(std::move(key), std::move(kernel)).first->second.get();
}

Result<Prepared> Executor::prepare(const Graph& graph, const std::string& program_text, const Inputs& inputs,
                                   const Sizes& sizes, Layout outputs) {
  const ProgramInfo& info = graph.info();
  Prepared call;
  DeviceTensors addresses;
  const auto add = [&](const std::string& name, const HostTensor& tensor, std::int64_t offset) -> Status {
    auto guarded = GuardedTensor::create(*device_, name, tensor, offset);
    if (!guarded) return guarded.errors();
    addresses[name] = guarded->device_tensor();
    call.tensors.emplace(name, std::move(guarded).value());
    return Unit{};
  };
  for (const auto& [name, tensor] : inputs.tensors)
    if (auto status = add(name, tensor, inputs.offsets.at(name)); !status) return status.errors();
  const Placement o = place(outputs, "o", info.dtype, {sizes.batch, info.heads, sizes.sq, info.v_head_dim});
  const Placement lse = place(outputs, "lse", DType::f32, {sizes.batch, info.heads, sizes.sq});
  if (auto status = add("o", poisoned(o), o.offset); !status) return status.errors();
  if (auto status = add("lse", poisoned(lse), lse.offset); !status) return status.errors();

  auto compiled = kernel(graph, program_text, common_alignment(graph, addresses));
  if (!compiled) return compiled.errors();
  call.kernel = *compiled;
  call.launch = launch_shape(call.kernel->program, sizes);
  call.params = argument_block(call.kernel->program, addresses, sizes);
  return call;
}

Status Executor::launch(const Prepared& call) {
  if (call.launch.grid[0] == 0) return Unit{};  // no rows
  return device_->launch(*call.kernel->module, call.launch, call.params);
}

Result<Observed> Executor::read(const Prepared& call) {
  if (auto status = device_->synchronize(); !status) return status.errors();
  Observed observed;
  for (const auto& [name, tensor] : call.tensors) {
    const bool is_output = name == "o" || name == "lse";
    auto read = tensor.read(*device_, !is_output, observed.damage);
    if (!read) return read.errors();
    if (name == "o")
      observed.o = std::move(read).value();
    else if (name == "lse")
      observed.lse = std::move(read).value();
  }
  append_elements(observed.o, observed.values.o, observed.bits);
  append_elements(observed.lse, observed.values.lse, observed.bits);
  return observed;
}

Result<Observed> Executor::run(const Graph& graph, const Case& c, const Inputs& inputs) {
  auto call = prepare(graph, c.program, inputs, {c.batch, c.sq, c.skv}, c.layout);
  if (!call) return call.errors();
  if (auto status = launch(*call); !status) return status.errors();
  return read(*call);
}

}  // namespace attnfuse::conformance
