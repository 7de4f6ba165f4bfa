#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "frontend/parser.h"
#include "runtime/capi/call.h"
#include "runtime/capi/handles.h"
#include "runtime/reference.h"

using namespace attnfuse;
using namespace attnfuse::capi;

namespace {

// Sizes of the first version's structs.
constexpr std::size_t kOptionsSize = sizeof(attnfuse_options), kTensorInfoSize = sizeof(attnfuse_tensor_info),
                      kKernelInfoSize = sizeof(attnfuse_kernel_info);

// A call of the program.
attnfuse_status read_call(const char* function, attnfuse_program* program, const attnfuse_call* call,
                          Call& to) {
  if (!program) return bad_argument(fmt::format("{}: program is null", function));
  const Executable& executable = *program->executable;
  return to.read(function, call, executable.tensor_names(), [&](const TensorLayouts& layouts) -> Status {
    const auto sizes = check_call(executable.graph(), layouts);
    if (!sizes) return sizes.errors();
    return Unit{};
  });
}

}  // namespace

attnfuse_status attnfuse_compile(attnfuse_device* device, const char* text, const attnfuse_options* options,
                                 attnfuse_program** program) {
  return guarded([&] {
    if (!device || !text || !program)
      return bad_argument("attnfuse_compile: device, text or program is null");
    attnfuse_options given{};
    if (options && !read_struct(options, kOptionsSize, given))
      return wrong_size("attnfuse_compile", "attnfuse_options", options->struct_size);
    const auto graph = parse_one(text, given.file ? given.file : "<text>");
    if (!graph) return fail(ATTNFUSE_BAD_PROGRAM, render(graph.errors(), text));
    auto executable = Executable::prepare(*graph, device->machine);
    if (!executable) return fail(executable.errors(), text);
    *program = new attnfuse_program{std::move(executable).value()};
    return ATTNFUSE_OK;
  });
}

void attnfuse_program_release(attnfuse_program* program) { delete program; }

size_t attnfuse_tensor_count(const attnfuse_program* program) {
  return program ? program->executable->tensor_names().size() : 0;
}

attnfuse_status attnfuse_tensor_at(const attnfuse_program* program, size_t index,
                                   attnfuse_tensor_info* info) {
  return guarded([&] {
    if (!program || !info) return bad_argument("attnfuse_tensor_at: program or info is null");
    const auto tensors = program->executable->tensors();
    if (index >= tensors.size())
      return bad_argument(
          fmt::format("attnfuse_tensor_at: there is no tensor {}, but {}", index, tensors.size()));
    const CallTensor& tensor = tensors[index];
    attnfuse_tensor_info found{};
    found.name = program->executable->tensor_names()[index].c_str();
    found.dtype = attnfuse_dtype(std::ranges::find(kDTypes, tensor.dtype) - std::begin(kDTypes));
    found.rank = std::int32_t(tensor.shape.size());
    found.is_output = tensor.is_output;
    const ProgramInfo& compiled_in = program->executable->graph().info();
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const auto* number = std::get_if<std::int64_t>(&tensor.shape[axis].value);
      found.shape[axis] =
          number ? *number : compiled_in.size(std::get<Size>(tensor.shape[axis].value)).value_or(-1);
    }
    if (!write_struct(found, kTensorInfoSize, info))
      return wrong_size("attnfuse_tensor_at", "attnfuse_tensor_info", info->struct_size);
    return ATTNFUSE_OK;
  });
}

attnfuse_status attnfuse_supports(attnfuse_program* program, const attnfuse_call* call) {
  return guarded([&] {
    Call given;
    if (const auto status = read_call("attnfuse_supports", program, call, given); status != ATTNFUSE_OK)
      return status;
    const auto sizes = program->executable->supports(given.tensors());
    return sizes ? ATTNFUSE_OK : fail(sizes.errors());
  });
}

attnfuse_status attnfuse_workspace_bytes(attnfuse_program* program, const attnfuse_call* call,
                                         size_t* bytes) {
  return guarded([&] {
    Call given;
    if (!bytes) return bad_argument("attnfuse_workspace_bytes: bytes is null");
    if (const auto status = read_call("attnfuse_workspace_bytes", program, call, given);
        status != ATTNFUSE_OK)
      return status;
    const auto sizes = program->executable->supports(given.tensors());
    if (!sizes) return fail(sizes.errors());
    const auto needed = program->executable->workspace_bytes(*sizes);
    if (!needed) return fail(needed.errors());
    *bytes = *needed;
    return ATTNFUSE_OK;
  });
}

attnfuse_status attnfuse_launch(attnfuse_program* program, const attnfuse_call* call) {
  return guarded([&] {
    Call given;
    if (const auto status = read_call("attnfuse_launch", program, call, given); status != ATTNFUSE_OK)
      return status;
    const auto status = program->executable->launch(given.tensors(), given.site());
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}

attnfuse_status attnfuse_kernels(attnfuse_program* program, const attnfuse_call* call,
                                 attnfuse_kernel_info* kernels, size_t capacity, size_t* count) {
  return guarded([&] {
    Call given;
    if (!count) return bad_argument("attnfuse_kernels: count is null");
    if (const auto status = read_call("attnfuse_kernels", program, call, given); status != ATTNFUSE_OK)
      return status;
    const auto plan = program->executable->plan_for(given.tensors());
    if (!plan) return fail(plan.errors());
    const std::vector<Step>& steps = (*plan)->steps;
    const std::size_t filled = kernels ? std::min(capacity, steps.size()) : 0;
    const std::size_t size = filled > 0 ? kernels->struct_size : 0;
    for (std::size_t n = 0; n < filled; ++n) {
      const Kernel& kernel = *steps[n].kernel;
      const Schedule& schedule = kernel.program.schedule;
      attnfuse_kernel_info found{};
      found.name = kernel.program.name.c_str();
      found.schedule = schedule.name.c_str();
      found.source = schedule.source.c_str();
      found.block_q = schedule.block_q;
      found.block_k = schedule.block_k;
      found.threads = kernel.program.threads();
      found.registers = kernel.binary.resources.registers;
      found.spill_bytes = kernel.binary.resources.spill_bytes;
      found.shared_bytes = kernel.program.footprint.shared_bytes;
      auto* to = reinterpret_cast<attnfuse_kernel_info*>(reinterpret_cast<char*>(kernels) + n * size);
      to->struct_size = size;
      if (!write_struct(found, kKernelInfoSize, to))
        return wrong_size("attnfuse_kernels", "attnfuse_kernel_info", size);
    }
    *count = steps.size();
    return ATTNFUSE_OK;
  });
}
