#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "frontend/parser.h"
#include "runtime/capi/handles.h"
#include "runtime/reference.h"

using namespace attnfuse;
using namespace attnfuse::capi;

namespace {

constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32, DType::i32, DType::boolean};  // by number
static_assert(kMaxRank == ATTNFUSE_MAX_RANK);

// Sizes of the first version's structs.
constexpr std::size_t kOptionsSize = sizeof(attnfuse_options), kCallSize = sizeof(attnfuse_call),
                      kTensorInfoSize = sizeof(attnfuse_tensor_info),
                      kKernelInfoSize = sizeof(attnfuse_kernel_info);

attnfuse_status wrong_size(const char* function, const char* type, std::size_t size) {
  return bad_argument(
      fmt::format("{}: struct_size of {} is {}; set it to sizeof({})", function, type, size, type));
}

BoundTensor bound_tensor(const attnfuse_tensor& tensor) {
  BoundTensor result;
  result.address = reinterpret_cast<std::uintptr_t>(tensor.data);
  result.dtype = kDTypes[std::size_t(tensor.dtype)];
  result.rank = tensor.rank;
  std::ranges::copy(tensor.shape, result.shape.begin());
  std::ranges::copy(tensor.strides, result.strides.begin());
  return result;
}

// A call whose struct and tensors are well formed, its tensors in the program's order.
class Call {
 public:
  // Keeps the words when there is something wrong.
  attnfuse_status read(const char* function, attnfuse_program* program, const attnfuse_call* call) {
    if (!program || !call)
      return bad_argument(fmt::format("{}: {} is null", function, program ? "call" : "program"));
    if (!read_struct(call, kCallSize, call_)) return wrong_size(function, "attnfuse_call", call->struct_size);
    if (!call_.tensors && call_.tensor_count > 0)
      return bad_argument(fmt::format("{}: tensors is null", function));
    for (std::size_t n = 0; n < call_.tensor_count; ++n)
      if (const auto status = check(function, n); status != ATTNFUSE_OK) return status;
    return sort(*program->executable);
  }

  std::span<const BoundTensor> tensors() const { return tensors_; }
  LaunchSite site() const {
    return {call_.stream, reinterpret_cast<std::uintptr_t>(call_.workspace), call_.workspace_bytes};
  }

 private:
  attnfuse_status check(const char* function, std::size_t index) const {
    const attnfuse_tensor& tensor = call_.tensors[index];
    if (!tensor.name) return bad_argument(fmt::format("{}: tensor {} has no name", function, index));
    if (tensor.dtype < 0 || std::size_t(tensor.dtype) >= std::size(kDTypes))
      return bad_argument(
          fmt::format("{}: tensor '{}' has dtype {}, which is none", function, tensor.name, tensor.dtype));
    if (tensor.rank < 0 || tensor.rank > ATTNFUSE_MAX_RANK)
      return bad_argument(fmt::format("{}: tensor '{}' has rank {}, the limit is {}", function, tensor.name,
                                      tensor.rank, ATTNFUSE_MAX_RANK));
    return ATTNFUSE_OK;
  }

  attnfuse_status sort(const Executable& executable) {
    const std::vector<std::string>& names = executable.tensor_names();
    tensors_.clear();
    for (std::size_t n = 0; n < names.size(); ++n) {
      const attnfuse_tensor* found = find(names[n], n);
      if (!found) return wrong_names(executable);
      tensors_.push_back(bound_tensor(*found));
    }
    return call_.tensor_count == names.size() ? ATTNFUSE_OK : wrong_names(executable);
  }

  // Mostly the caller's order is the program's.
  const attnfuse_tensor* find(const std::string& name, std::size_t likely) const {
    if (likely < call_.tensor_count && name == call_.tensors[likely].name) return &call_.tensors[likely];
    for (std::size_t n = 0; n < call_.tensor_count; ++n)
      if (name == call_.tensors[n].name) return &call_.tensors[n];
    return nullptr;
  }

  attnfuse_status wrong_names(const Executable& executable) const {
    std::map<std::string, TensorLayout> layouts;
    for (std::size_t n = 0; n < call_.tensor_count; ++n) {
      const attnfuse_tensor& tensor = call_.tensors[n];
      const auto rank = std::size_t(tensor.rank);
      const TensorLayout layout{kDTypes[std::size_t(tensor.dtype)],
                                {tensor.shape, tensor.shape + rank},
                                {tensor.strides, tensor.strides + rank}};
      if (!layouts.emplace(tensor.name, layout).second)
        return fail(ATTNFUSE_BAD_TENSOR, fmt::format("tensor '{}' is given twice", tensor.name));
    }
    const auto sizes = check_call(executable.graph(), layouts);
    ATTNFUSE_CHECK(!sizes, "tensors of other names than the program's are no call of it");
    return fail(sizes.errors());
  }

  attnfuse_call call_{};
  static thread_local std::vector<BoundTensor> tensors_;  // kept, so that a launch allocates nothing
};

thread_local std::vector<BoundTensor> Call::tensors_;

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
    found.dtype = attnfuse_dtype(std::ranges::find(kDTypes, tensor.dtype) - kDTypes);
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
    Call read;
    if (const auto status = read.read("attnfuse_supports", program, call); status != ATTNFUSE_OK)
      return status;
    const auto sizes = program->executable->supports(read.tensors());
    return sizes ? ATTNFUSE_OK : fail(sizes.errors());
  });
}

attnfuse_status attnfuse_workspace_bytes(attnfuse_program* program, const attnfuse_call* call,
                                         size_t* bytes) {
  return guarded([&] {
    Call read;
    if (!bytes) return bad_argument("attnfuse_workspace_bytes: bytes is null");
    if (const auto status = read.read("attnfuse_workspace_bytes", program, call); status != ATTNFUSE_OK)
      return status;
    const auto sizes = program->executable->supports(read.tensors());
    if (!sizes) return fail(sizes.errors());
    const auto needed = program->executable->workspace_bytes(*sizes);
    if (!needed) return fail(needed.errors());
    *bytes = *needed;
    return ATTNFUSE_OK;
  });
}

attnfuse_status attnfuse_launch(attnfuse_program* program, const attnfuse_call* call) {
  return guarded([&] {
    Call read;
    if (const auto status = read.read("attnfuse_launch", program, call); status != ATTNFUSE_OK) return status;
    const auto status = program->executable->launch(read.tensors(), read.site());
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}

attnfuse_status attnfuse_kernels(attnfuse_program* program, const attnfuse_call* call,
                                 attnfuse_kernel_info* kernels, size_t capacity, size_t* count) {
  return guarded([&] {
    Call read;
    if (!count) return bad_argument("attnfuse_kernels: count is null");
    if (const auto status = read.read("attnfuse_kernels", program, call); status != ATTNFUSE_OK)
      return status;
    const auto plan = program->executable->plan_for(read.tensors());
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
