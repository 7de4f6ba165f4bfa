#include "backends/backend.h"
#include "ir/graph.h"
#include "runtime/compile.h"
#include "runtime/execute.h"
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

  Result<HostTensor> download(const std::string& name) const {
    HostTensor tensor = HostTensor::zeros(tensors.at(name).layout);
    if (auto status = device_.download(*buffers_.at(name), 0, tensor.bytes); !status) return status.errors();
    return tensor;
  }

  DeviceTensors tensors;

 private:
  Device& device_;
  std::map<std::string, std::shared_ptr<Buffer>> buffers_;
};

}  // namespace

Result<HostTensors> run(const Graph& graph, const Backend& backend, Device& device, const HostTensors& inputs,
                        KernelCache& cache) {
  const auto sizes = check_inputs(graph, inputs);
  if (!sizes) return sizes.errors();
  const ProgramInfo& info = graph.info();
  Call call(device);
  for (const auto& [name, tensor] : inputs)
    if (auto status = call.add(name, tensor.layout, tensor.bytes); !status) return status.errors();
  const TensorLayout layouts[] = {
      TensorLayout::contiguous(info.dtype, {sizes->batch, info.heads, sizes->sq, info.v_head_dim}),
      TensorLayout::contiguous(DType::f32, {sizes->batch, info.heads, sizes->sq})};
  const char* const names[] = {"o", "lse"};
  for (int n = 0; n < 2; ++n)
    if (auto status = call.add(names[n], layouts[n], {}); !status) return status.errors();

  CompileOptions options;
  options.vector_bytes = common_alignment(graph, call.tensors);
  const auto compiled = compile(graph, backend, device.target(), options, cache);
  if (!compiled) return compiled.errors();
  const auto module = device.load(compiled->binary);
  if (!module) return module.errors();
  if (const Launch launch = launch_shape(compiled->program, *sizes); launch.grid[0] > 0) {
    const auto params = argument_block(compiled->program, call.tensors, *sizes);
    if (auto status = device.launch(**module, launch, params); !status) return status.errors();
    if (auto status = device.synchronize(); !status) return status.errors();
  }
  HostTensors outputs;
  for (const char* name : names) {
    auto tensor = call.download(name);
    if (!tensor) return tensor.errors();
    outputs.emplace(name, std::move(tensor).value());
  }
  return outputs;
}

Result<HostTensors> run(const Graph& graph, Device& device, const HostTensors& inputs) {
  const Backend* backend = find_backend(device.target().backend);
  ATTNFUSE_CHECK(backend, "a device without backend: " + device.name());
  return run(graph, *backend, device, inputs, KernelCache::standard());
}

}  // namespace attnfuse
