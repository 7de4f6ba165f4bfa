#include "conformance/executor.h"

#include <fmt/format.h>

#include "conformance/stored.h"
#include "ir/storage.h"
#include "runtime/call_sizes.h"

namespace attnfuse::conformance {
namespace {

void append_elements(const HostTensor& tensor, std::vector<double>& values, std::vector<std::byte>& bits) {
  const auto size = std::size_t(size_in_bytes(tensor.layout.dtype));
  for_each_index(tensor.layout.shape, [&](std::span<const std::int64_t> index) {
    values.push_back(tensor.get(index));
    const auto at = tensor.bytes.begin() + std::ptrdiff_t(std::size_t(tensor.layout.offset(index)) * size);
    bits.insert(bits.end(), at, at + std::ptrdiff_t(size));
  });
}

}  // namespace

Result<Executor> Executor::open(std::string_view target, CompileOptions options) {
  auto machine = open_machine(target);
  if (!machine) return machine.errors();
  return Executor(std::move(machine).value(), std::move(options));
}

Result<std::shared_ptr<Executable>> Executor::executable(const Graph& graph, const std::string& program_text,
                                                         Rotation rotation) {
  const std::string key = fmt::format("{} {}", name(rotation), program_text);
  if (const auto found = executables_.find(key); found != executables_.end()) return found->second;
  CompileOptions options = options_;
  options.rotation = rotation;
  auto made = Executable::prepare(graph, machine_, options);
  if (made) executables_.emplace(key, *made);
  return made;
}

Result<Prepared> Executor::prepare(const Graph& graph, const std::string& program_text, const Inputs& inputs,
                                   const Sizes& sizes, Layout outputs, Rotation rotation) {
  Prepared call;
  DeviceTensors addresses;
  const auto add = [&](const std::string& name, const HostTensor& tensor, std::int64_t offset) -> Status {
    const auto far = inputs.far.find(name);
    auto guarded = GuardedTensor::create(device(), name, tensor, offset,
                                         far != inputs.far.end() ? &far->second : nullptr);
    if (!guarded) return guarded.errors();
    addresses[name] = guarded->device_tensor();
    call.tensors.emplace(name, std::move(guarded).value());
    return Unit{};
  };
  for (const auto& [name, tensor] : inputs.tensors)
    if (auto status = add(name, tensor, inputs.offsets.at(name)); !status) return status.errors();
  for (const CallTensor& output : call_tensors(graph)) {
    if (!output.is_output) continue;
    std::vector<std::int64_t> shape;
    for (const Extent& extent : output.shape) shape.push_back(length_in_call(extent, graph.info(), sizes));
    const Placement placed = place(outputs, output.name, output.dtype, shape);
    if (auto status = add(output.name, poisoned_tensor(placed.layout), placed.offset); !status)
      return status.errors();
  }

  auto made = executable(graph, program_text, rotation);
  if (!made) return made.errors();
  call.executable = std::move(made).value();
  auto bound = call.executable->bind(addresses);
  if (!bound) return bound.errors();
  call.bound = std::move(bound).value();
  const auto plan = call.executable->plan_for(call.bound);
  if (!plan) return plan.errors();
  call.plan = *plan;
  const auto known = call.executable->supports(call.bound);  // sizes as a call's tensors tell them
  if (!known) return known.errors();
  const auto bytes = call.executable->workspace_bytes(*known);
  if (!bytes) return bytes.errors();
  if (*bytes > 0) {
    auto workspace = device().allocate(*bytes);
    if (!workspace) return workspace.errors();
    call.workspace = std::move(workspace).value();
    const std::vector<std::byte> poison(*bytes, std::byte{0xff});
    if (auto status = device().upload(*call.workspace, 0, poison); !status) return status.errors();
  }
  return call;
}

Status Executor::launch(const Prepared& call) {
  LaunchSite site;
  if (call.workspace) site = {nullptr, call.workspace->address(), call.workspace->size()};
  return call.executable->launch(call.bound, site);
}

Result<Observed> Executor::read(const Prepared& call) const {
  if (auto status = device().synchronize(); !status) return status.errors();
  Observed observed;
  for (const auto& [name, tensor] : call.tensors) {
    const bool is_output = name == "o" || name == "lse" || name == "lse2" || name == "max_logit";
    auto read = tensor.read(device(), !is_output, observed.damage);
    if (!read) return read.errors();
    if (is_output) observed.outputs.emplace(name, std::move(read).value());
  }
  for (const auto& [name, values] :
       {std::pair{"o", &observed.values.o}, std::pair{"lse", &observed.values.lse},
        std::pair{"max_logit", &observed.values.max_logit}, std::pair{"lse2", &observed.values.lse2}})
    if (const auto found = observed.outputs.find(name); found != observed.outputs.end())
      append_elements(found->second, *values, observed.bits);
  return observed;
}

Result<Observed> Executor::run(const Graph& graph, const Case& c, const Inputs& inputs) {
  const Stored stored = store(graph, c, inputs);
  auto call = prepare(graph, c.program, stored.inputs, stored.sizes, c.layout, c.rotation);
  if (!call) return call.errors();
  if (auto status = launch(*call); !status) return status.errors();
  return read(*call);
}

}  // namespace attnfuse::conformance
