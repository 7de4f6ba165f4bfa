#include "runtime/capi/call.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/capi/handles.h"

namespace attnfuse::capi {
namespace {

static_assert(kMaxRank == ATTNFUSE_MAX_RANK);
constexpr std::size_t kCallSize = sizeof(attnfuse_call);  // of the first version

thread_local std::vector<BoundTensor> kept_tensors;

BoundTensor bound_tensor(const attnfuse_tensor& tensor) {
  BoundTensor result;
  result.address = reinterpret_cast<std::uintptr_t>(tensor.data);
  result.dtype = kDTypes[std::size_t(tensor.dtype)];
  result.rank = tensor.rank;
  std::ranges::copy(tensor.shape, result.shape.begin());
  std::ranges::copy(tensor.strides, result.strides.begin());
  return result;
}

}  // namespace

attnfuse_status wrong_size(const char* function, const char* type, std::size_t size) {
  return bad_argument(
      fmt::format("{}: struct_size of {} is {}; set it to sizeof({})", function, type, size, type));
}

attnfuse_status Call::read(const char* function, const attnfuse_call* call,
                           std::span<const std::string> names,
                           const std::function<Status(const TensorLayouts&)>& complain) {
  if (!call) return bad_argument(fmt::format("{}: call is null", function));
  if (!read_struct(call, kCallSize, call_)) return wrong_size(function, "attnfuse_call", call->struct_size);
  if (!call_.tensors && call_.tensor_count > 0)
    return bad_argument(fmt::format("{}: tensors is null", function));
  for (std::size_t n = 0; n < call_.tensor_count; ++n)
    if (const auto status = check(function, n); status != ATTNFUSE_OK) return status;
  kept_tensors.clear();
  for (std::size_t n = 0; n < names.size(); ++n) {
    const attnfuse_tensor* found = find(names[n], n);
    if (!found) return wrong_names(complain);
    kept_tensors.push_back(bound_tensor(*found));
  }
  return call_.tensor_count == names.size() ? ATTNFUSE_OK : wrong_names(complain);
}

std::span<const BoundTensor> Call::tensors() const { return kept_tensors; }

LaunchSite Call::site() const {
  return {call_.stream, reinterpret_cast<std::uintptr_t>(call_.workspace), call_.workspace_bytes};
}

attnfuse_status Call::check(const char* function, std::size_t index) const {
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

// Mostly the caller's order is the program's.
const attnfuse_tensor* Call::find(const std::string& name, std::size_t likely) const {
  if (likely < call_.tensor_count && name == call_.tensors[likely].name) return &call_.tensors[likely];
  for (std::size_t n = 0; n < call_.tensor_count; ++n)
    if (name == call_.tensors[n].name) return &call_.tensors[n];
  return nullptr;
}

attnfuse_status Call::wrong_names(const std::function<Status(const TensorLayouts&)>& complain) const {
  TensorLayouts layouts;
  for (std::size_t n = 0; n < call_.tensor_count; ++n) {
    const attnfuse_tensor& tensor = call_.tensors[n];
    const auto rank = std::size_t(tensor.rank);
    const TensorLayout layout{kDTypes[std::size_t(tensor.dtype)],
                              {tensor.shape, tensor.shape + rank},
                              {tensor.strides, tensor.strides + rank}};
    if (!layouts.emplace(tensor.name, layout).second)
      return fail(ATTNFUSE_BAD_TENSOR, fmt::format("tensor '{}' is given twice", tensor.name));
  }
  const Status status = complain(layouts);
  ATTNFUSE_CHECK(!status, "tensors of other names than a call's are no call");
  return fail(status.errors());
}

}  // namespace attnfuse::capi
