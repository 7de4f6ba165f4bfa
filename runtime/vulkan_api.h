// Vulkan functions, found at run time in libvulkan. Internal to runtime/vulkan*.cpp, which exist where the
// headers do.
#pragma once

#if __has_include(<vulkan/vulkan_core.h>)
#define ATTNFUSE_HAS_VULKAN 1
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/diagnostic.h"

// ---- newer than the oldest headers we build with: VK_KHR_cooperative_matrix ----------------------
#ifndef VK_KHR_cooperative_matrix
#define VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME "VK_KHR_cooperative_matrix"
inline constexpr auto VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR =
    VkStructureType(1000506000);
inline constexpr auto VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR = VkStructureType(1000506001);
// NOLINTBEGIN(performance-enum-size): as wide as Vulkan's
enum VkComponentTypeKHR : int { VK_COMPONENT_TYPE_FLOAT16_KHR = 0, VK_COMPONENT_TYPE_FLOAT32_KHR = 1 };
enum VkScopeKHR : int { VK_SCOPE_SUBGROUP_KHR = 3 };
// NOLINTEND(performance-enum-size)
struct VkPhysicalDeviceCooperativeMatrixFeaturesKHR {
  VkStructureType sType;
  void* pNext;
  VkBool32 cooperativeMatrix;
  VkBool32 cooperativeMatrixRobustBufferAccess;
};
struct VkCooperativeMatrixPropertiesKHR {
  VkStructureType sType;
  void* pNext;
  uint32_t MSize, NSize, KSize;
  VkComponentTypeKHR AType, BType, CType, ResultType;
  VkBool32 saturatingAccumulation;
  VkScopeKHR scope;
};
using PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR =
    VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t*, VkCooperativeMatrixPropertiesKHR*);
#endif

namespace attnfuse::vulkan {

// clang-format off: it does not settle on one layout of a long macro
#define ATTNFUSE_VULKAN_INSTANCE_FUNCTIONS(X) \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties2) \
  X(GetPhysicalDeviceFeatures2) X(GetPhysicalDeviceMemoryProperties) \
  X(GetPhysicalDeviceQueueFamilyProperties) X(EnumerateDeviceExtensionProperties) X(CreateDevice) \
  X(GetDeviceProcAddr)
// clang-format on

// clang-format off: it does not settle on one layout of a long macro
#define ATTNFUSE_VULKAN_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueSubmit) X(QueueWaitIdle) \
  X(CreateBuffer) X(DestroyBuffer) X(GetBufferMemoryRequirements) X(GetBufferDeviceAddress) \
  X(AllocateMemory) X(FreeMemory) X(BindBufferMemory) X(MapMemory) X(CreateCommandPool) \
  X(DestroyCommandPool) X(AllocateCommandBuffers) X(BeginCommandBuffer) X(EndCommandBuffer) \
  X(CmdPipelineBarrier) X(CmdBindPipeline) X(CmdPushConstants) X(CmdDispatch) X(CmdCopyBuffer) \
  X(CreateFence) X(DestroyFence) X(ResetFences) X(WaitForFences) X(GetFenceStatus) \
  X(CreateQueryPool) X(DestroyQueryPool) X(CmdResetQueryPool) X(CmdWriteTimestamp) \
  X(GetQueryPoolResults) X(CreateShaderModule) X(DestroyShaderModule) X(CreatePipelineLayout) \
  X(DestroyPipelineLayout) X(CreateComputePipelines) X(DestroyPipeline)
// clang-format on

#define ATTNFUSE_VULKAN_POINTER(function) PFN_vk##function function = nullptr;

struct DeviceFunctions {
  ATTNFUSE_VULKAN_DEVICE_FUNCTIONS(ATTNFUSE_VULKAN_POINTER)
};

// libvulkan and one instance. The library stays loaded: drivers keep threads and exit handlers.
class Instance {
 public:
  ~Instance();
  // The process's instance, or why there is none. It lives as long as the process.
  static Result<std::shared_ptr<const Instance>> get();

  ATTNFUSE_VULKAN_INSTANCE_FUNCTIONS(ATTNFUSE_VULKAN_POINTER)
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  VkInstance handle = VK_NULL_HANDLE;

 private:
  static Result<std::shared_ptr<const Instance>> create();
};

#undef ATTNFUSE_VULKAN_POINTER

std::string_view result_name(VkResult result);
// "device.failed", or "device.out-of-memory" for the results that say so.
Diagnostic failure(VkResult result, std::string_view what);

}  // namespace attnfuse::vulkan
#endif
