// A call of the C interface as the runtime takes it. One is read for every launch: it allocates nothing.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/attnfuse.h"
#include "runtime/executable.h"

namespace attnfuse::capi {

inline constexpr DType kDTypes[] = {DType::f16, DType::bf16, DType::f32, DType::i32,
                                    DType::boolean};  // by number

attnfuse_status wrong_size(const char* function, const char* type, std::size_t size);

using TensorLayouts = std::map<std::string, TensorLayout>;

class Call {
 public:
  // A call whose struct and tensors are well formed and have these names; else the words are kept.
  // `complain` has them for tensors of other names.
  attnfuse_status read(const char* function, const attnfuse_call* call, std::span<const std::string> names,
                       const std::function<Status(const TensorLayouts&)>& complain);

  // In the order of the names; valid until the thread reads another call.
  std::span<const BoundTensor> tensors() const;
  LaunchSite site() const;

 private:
  attnfuse_status check(const char* function, std::size_t index) const;
  const attnfuse_tensor* find(const std::string& name, std::size_t likely) const;
  attnfuse_status wrong_names(const std::function<Status(const TensorLayouts&)>& complain) const;

  attnfuse_call call_{};
};

}  // namespace attnfuse::capi
