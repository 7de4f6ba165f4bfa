// A SPIR-V module as a compute pipeline. Internal to runtime/vulkan*.cpp.
#pragma once

#include "runtime/vulkan_context.h"

#ifdef ATTNFUSE_HAS_VULKAN
namespace attnfuse::vulkan {

class VulkanModule : public Module {
 public:
  explicit VulkanModule(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~VulkanModule() override;
  VulkanModule(const VulkanModule&) = delete;
  VulkanModule& operator=(const VulkanModule&) = delete;
  // subgroup_size: 0 = whatever the device takes.
  static Result<std::shared_ptr<VulkanModule>> make(std::shared_ptr<Context> context, const Binary& binary,
                                                    int subgroup_size);

  VkPipeline pipeline() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }
  int threads() const { return threads_; }
  const Context& context() const { return *context_; }

 private:
  Status create(const Binary& binary, int subgroup_size);
  Status create_pipeline(VkShaderModule shader, int subgroup_size);

  std::shared_ptr<Context> context_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  int threads_ = 0;
};

}  // namespace attnfuse::vulkan
#endif
