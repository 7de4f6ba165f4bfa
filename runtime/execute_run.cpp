#include "ir/storage.h"
#include "runtime/call_sizes.h"
#include "runtime/compile.h"
#include "runtime/executable.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

// The tensors of one call in device memory.
class Call {
 public:
  explicit Call(Device& device) : device_(device) {}

  Status add(const std::string& name, const TensorLayout& layout, std::span<const std::byte> contents) {
    const auto bytes = std::size_t(layout.span_elements()) * std::size_t(size_in_bytes(layout.dtype));
    auto buffer = device_.allocate(bytes);
    if (!buffer) return buffer.errors();
    if (!contents.empty())
      if (auto status = device_.upload(**buffer, 0, contents.first(bytes)); !status) return status.errors();
    tensors[name] = {layout, (*buffer)->address()};
    buffers_[name] = *buffer;
    return Unit{};
  }

  // Kept as long as the call.
  Result<std::uint64_t> allocate(std::size_t bytes) {
    auto buffer = device_.allocate(bytes);
    if (!buffer) return buffer.errors();
    workspace_ = *buffer;
    return workspace_->address();
  }

  Result<HostTensor> download(const std::string& name) const {
    HostTensor tensor = HostTensor::zeros(tensors.at(name).layout);
    if (auto status = device_.download(*buffers_.at(name), 0, tensor.bytes); !status) return status.errors();
    return tensor;
  }

  DeviceTensors tensors;

 private:
  Device& device_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;
  std::shared_ptr<Buffer> workspace_;
};

}  // namespace

Result<HostTensors> run(const Graph& graph, const Machine& machine, const HostTensors& inputs,
                        KernelCache& cache) {
  const auto sizes = check_inputs(graph, inputs);
  if (!sizes) return sizes.errors();
  const auto executable = Executable::prepare(graph, machine, {}, cache);
  if (!executable) return executable.errors();
  Call call(*machine.device);
  for (const auto& [name, tensor] : inputs)
    if (auto status = call.add(name, tensor.layout, tensor.bytes); !status) return status.errors();
  std::vector<CallTensor> wanted = call_tensors(graph);
  std::erase_if(wanted, [](const CallTensor& tensor) { return !tensor.is_output; });
  for (const CallTensor& output : wanted) {
    std::vector<std::int64_t> shape;
    for (const Extent& extent : output.shape) shape.push_back(length_in_call(extent, graph.info(), *sizes));
    const TensorLayout layout = TensorLayout::contiguous(output.dtype, std::move(shape));
    if (auto status = call.add(output.name, layout, {}); !status) return status.errors();
  }

  const auto bytes = (*executable)->workspace_bytes(*sizes);
  if (!bytes) return bytes.errors();
  LaunchSite site;
  if (*bytes > 0) {
    auto workspace = call.allocate(*bytes);
    if (!workspace) return workspace.errors();
    site = {nullptr, *workspace, *bytes};
  }
  const auto tensors = (*executable)->bind(call.tensors);
  if (!tensors) return tensors.errors();
  if (auto status = (*executable)->launch(*tensors, site); !status) return status.errors();
  if (auto status = machine.device->synchronize(); !status) return status.errors();
  HostTensors outputs;
  for (const CallTensor& output : wanted) {
    auto tensor = call.download(output.name);
    if (!tensor) return tensor.errors();
    outputs.emplace(output.name, std::move(tensor).value());
  }
  return outputs;
}

Result<HostTensors> run(const Graph& graph, const Machine& machine, const HostTensors& inputs) {
  return run(graph, machine, inputs, KernelCache::standard());
}

}  // namespace attnfuse
