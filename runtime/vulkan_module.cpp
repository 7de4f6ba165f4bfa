#include "runtime/vulkan_module.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <fmt/format.h>

#include <cstring>

#include "runtime/spirv_words.h"

namespace attnfuse::vulkan {
Result<std::shared_ptr<VulkanModule>> VulkanModule::make(std::shared_ptr<Context> context,
                                                         const Binary& binary, int subgroup_size) {
  auto module = std::make_shared<VulkanModule>(std::move(context));
  if (Status status = module->create(binary, subgroup_size); !status) return status.errors();
  return module;
}

Status VulkanModule::create(const Binary& binary, int subgroup_size) {
  std::vector<std::uint32_t> words(binary.bytes.size() / 4);
  if (!words.empty()) std::memcpy(words.data(), binary.bytes.data(), words.size() * 4);
  threads_ = binary.bytes.size() % 4 == 0 ? declared_threads(words) : 0;
  if (threads_ == 0)
    return Diagnostic{
        "binary.invalid",
        fmt::format("{} bytes for {} are no SPIR-V compute module", binary.bytes.size(), binary.entry),
        {},
        "assemble the kernel again"};
  if (!context_->physical().keeps_nan) words = without_nan_demand(words);
  const DeviceFunctions& vk = context_->vk();
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = words.size() * 4;
  info.pCode = words.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  if (const VkResult result = vk.CreateShaderModule(context_->device(), &info, nullptr, &shader);
      result != VK_SUCCESS)
    return failure(result, "vkCreateShaderModule");
  const Status status = create_pipeline(shader, subgroup_size);
  vk.DestroyShaderModule(context_->device(), shader, nullptr);
  return status;
}

Status VulkanModule::create_pipeline(VkShaderModule shader, int subgroup_size) {
  const DeviceFunctions& vk = context_->vk();
  const PhysicalDevice& physical = context_->physical();
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(std::uint64_t)};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  if (const VkResult result = vk.CreatePipelineLayout(context_->device(), &layout, nullptr, &layout_);
      result != VK_SUCCESS)
    return failure(result, "vkCreatePipelineLayout");

  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required{};
  required.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  required.requiredSubgroupSize = std::uint32_t(subgroup_size);
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = "main";
  const bool choose = subgroup_size != 0 && physical.size_control &&
                      physical.facts.min_subgroup_size != physical.facts.max_subgroup_size;
  if (choose) info.stage.pNext = &required;
  // Kernels number their threads by subgroup: no lane may be missing.
  if (physical.full_subgroups && threads_ % (choose ? subgroup_size : physical.facts.subgroup_size) == 0)
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  info.layout = layout_;
  const VkResult result =
      vk.CreateComputePipelines(context_->device(), VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
  return result == VK_SUCCESS ? Status(Unit{}) : Status(failure(result, "vkCreateComputePipelines"));
}

VulkanModule::~VulkanModule() {
  const DeviceFunctions& vk = context_->vk();
  context_->wait_idle();
  if (pipeline_ != VK_NULL_HANDLE) vk.DestroyPipeline(context_->device(), pipeline_, nullptr);
  if (layout_ != VK_NULL_HANDLE) vk.DestroyPipelineLayout(context_->device(), layout_, nullptr);
}

}  // namespace attnfuse::vulkan
#endif
