#include "runtime/vulkan_physical.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

namespace attnfuse::vulkan {
namespace {

// The feature structures in one chain. Filled by a query, or switched on for a device.
struct FeatureChain {
  VkPhysicalDeviceFeatures2 core{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceVulkan13Features v13{};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{};

  FeatureChain(bool is_version_1_3, bool has_matrices) {
    core.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    matrix.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR;
    core.pNext = &v11;
    v11.pNext = &v12;
    void** next = &v12.pNext;
    if (is_version_1_3) {
      *next = &v13;
      next = &v13.pNext;
    }
    if (has_matrices) *next = &matrix;
  }
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;
};

// What every kernel needs.
struct NeededFeature {
  std::string_view name;
  VkBool32& (*in)(FeatureChain& chain);
};
constexpr NeededFeature kNeeded[] = {
    {"shaderInt64", [](FeatureChain& c) -> VkBool32& { return c.core.features.shaderInt64; }},
    {"shaderInt16", [](FeatureChain& c) -> VkBool32& { return c.core.features.shaderInt16; }},
    {"storageBuffer16BitAccess", [](FeatureChain& c) -> VkBool32& { return c.v11.storageBuffer16BitAccess; }},
    {"storageBuffer8BitAccess", [](FeatureChain& c) -> VkBool32& { return c.v12.storageBuffer8BitAccess; }},
    {"shaderFloat16", [](FeatureChain& c) -> VkBool32& { return c.v12.shaderFloat16; }},
    {"shaderInt8", [](FeatureChain& c) -> VkBool32& { return c.v12.shaderInt8; }},
    {"bufferDeviceAddress", [](FeatureChain& c) -> VkBool32& { return c.v12.bufferDeviceAddress; }},
};

std::set<std::string> extensions_of(const Instance& vk, VkPhysicalDevice device) {
  std::uint32_t count = 0;
  vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> list(count);
  vk.EnumerateDeviceExtensionProperties(device, nullptr, &count, list.data());
  std::set<std::string> names;
  for (std::uint32_t k = 0; k < count; ++k) names.insert(list[k].extensionName);
  return names;
}

// Drivers without the extension may return a function that must not be called: the extension list decides.
std::vector<MatrixShape> matrix_shapes(const Instance& vk, VkPhysicalDevice device) {
  const auto query = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      vk.GetInstanceProcAddr(vk.handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  std::uint32_t count = 0;
  if (query == nullptr || query(device, &count, nullptr) != VK_SUCCESS) return {};
  VkCooperativeMatrixPropertiesKHR blank{};
  blank.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
  std::vector<VkCooperativeMatrixPropertiesKHR> list(count, blank);
  query(device, &count, list.data());
  list.resize(std::min<std::size_t>(count, list.size()));
  std::vector<MatrixShape> shapes;
  for (const auto& p : list) {
    const bool f16 = p.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && p.BType == VK_COMPONENT_TYPE_FLOAT16_KHR;
    const bool f32 =
        p.CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR;
    if (f16 && f32 && p.scope == VK_SCOPE_SUBGROUP_KHR)
      shapes.push_back({DType::f16, int(p.MSize), int(p.NSize), int(p.KSize)});
  }
  return shapes;
}

std::optional<std::uint32_t> compute_family(const Instance& vk, VkPhysicalDevice device,
                                            std::uint32_t* timestamp_bits) {
  std::uint32_t count = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  for (std::uint32_t k = 0; k < count; ++k) {
    if ((families[k].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    *timestamp_bits = families[k].timestampValidBits;
    return k;
  }
  return std::nullopt;
}

void read_properties(const Instance& vk, PhysicalDevice& device, VkPhysicalDeviceProperties2& properties) {
  VkPhysicalDeviceVulkan11Properties v11{};
  VkPhysicalDeviceVulkan12Properties v12{};
  VkPhysicalDeviceVulkan13Properties v13{};
  v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES;
  properties.pNext = &v11;
  v11.pNext = &v12;
  if (device.is_version_1_3) v12.pNext = &v13;
  vk.GetPhysicalDeviceProperties2(device.handle, &properties);
  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  DeviceFacts& facts = device.facts;
  facts.name = properties.properties.deviceName;
  facts.is_cpu = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  facts.subgroup_size = facts.min_subgroup_size = facts.max_subgroup_size = int(v11.subgroupSize);
  facts.subgroup_shuffle = (v11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
                           (v11.subgroupSupportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
  if (device.size_control && (v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    facts.min_subgroup_size = int(v13.minSubgroupSize);
    facts.max_subgroup_size = int(v13.maxSubgroupSize);
  }
  device.keeps_nan = v12.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE;
  facts.shared_bytes = int(std::min<std::uint32_t>(limits.maxComputeSharedMemorySize, 1U << 30));
  facts.max_threads = int(std::min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]));
  facts.max_grid_x = int(std::min<std::uint32_t>(limits.maxComputeWorkGroupCount[0], 0x7fffffffU));
  device.nanoseconds_per_tick = double(limits.timestampPeriod);
  device.max_buffer_bytes = v11.maxMemoryAllocationSize;
}

PhysicalDevice inspect(const Instance& vk, VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.handle = handle;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  vk.GetPhysicalDeviceProperties2(handle, &properties);
  device.facts.name = properties.properties.deviceName;
  const std::uint32_t version = properties.properties.apiVersion;
  if (version < VK_API_VERSION_1_2) {
    device.missing.push_back(fmt::format("Vulkan 1.2 (it has {}.{})", VK_API_VERSION_MAJOR(version),
                                         VK_API_VERSION_MINOR(version)));
    return device;
  }
  device.is_version_1_3 = version >= VK_API_VERSION_1_3;
  const bool has_matrices = extensions_of(vk, handle).contains(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  FeatureChain features(device.is_version_1_3, has_matrices);
  vk.GetPhysicalDeviceFeatures2(handle, &features.core);
  for (const NeededFeature& needed : kNeeded)
    if (needed.in(features) == VK_FALSE) device.missing.emplace_back(needed.name);
  device.size_control = features.v13.subgroupSizeControl == VK_TRUE;
  device.full_subgroups = features.v13.computeFullSubgroups == VK_TRUE;
  device.memory_model = features.v12.vulkanMemoryModel == VK_TRUE;
  read_properties(vk, device, properties);
  if (has_matrices && features.matrix.cooperativeMatrix == VK_TRUE && device.memory_model)
    device.facts.matrices = matrix_shapes(vk, handle);
  const auto family = compute_family(vk, handle, &device.timestamp_bits);
  if (!family) device.missing.emplace_back("a compute queue");
  device.queue_family = family.value_or(0);
  vk.GetPhysicalDeviceMemoryProperties(handle, &device.memory);
  return device;
}

int preference(const Instance& vk, const PhysicalDevice& device) {
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  vk.GetPhysicalDeviceProperties2(device.handle, &properties);
  const char* wanted = std::getenv("ATTNFUSE_VULKAN_DEVICE");
  const bool named =
      wanted != nullptr && *wanted != '\0' && device.facts.name.find(wanted) != std::string::npos;
  int rank = named ? -10 : 0;
  switch (properties.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return rank;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return rank + 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return rank + 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return rank + 3;
    case VK_PHYSICAL_DEVICE_TYPE_OTHER:
    case VK_PHYSICAL_DEVICE_TYPE_MAX_ENUM:
      break;
  }
  return rank + 4;
}

}  // namespace

std::vector<PhysicalDevice> usable_devices(const Instance& vk, std::vector<std::string>* rejected) {
  std::uint32_t count = 0;
  if (vk.EnumeratePhysicalDevices(vk.handle, &count, nullptr) != VK_SUCCESS) return {};
  std::vector<VkPhysicalDevice> handles(count);
  vk.EnumeratePhysicalDevices(vk.handle, &count, handles.data());
  handles.resize(count);
  std::multimap<int, PhysicalDevice> ranked;  // equal ranks keep the driver's order
  for (VkPhysicalDevice handle : handles) {
    PhysicalDevice device = inspect(vk, handle);
    if (device.missing.empty())
      ranked.emplace(preference(vk, device), std::move(device));
    else if (rejected != nullptr)
      rejected->push_back(fmt::format("{} lacks {}", device.facts.name, fmt::join(device.missing, ", ")));
  }
  std::vector<PhysicalDevice> usable;
  for (auto& [rank, device] : ranked) usable.push_back(std::move(device));
  return usable;
}

VkResult create_logical_device(const Instance& vk, const PhysicalDevice& physical, VkDevice* device) {
  const bool has_matrices = !physical.facts.matrices.empty();
  FeatureChain features(physical.is_version_1_3, has_matrices);
  for (const NeededFeature& needed : kNeeded) needed.in(features) = VK_TRUE;
  features.v12.vulkanMemoryModel = physical.memory_model ? VK_TRUE : VK_FALSE;
  features.v13.subgroupSizeControl = physical.size_control ? VK_TRUE : VK_FALSE;
  features.v13.computeFullSubgroups = physical.full_subgroups ? VK_TRUE : VK_FALSE;
  features.matrix.cooperativeMatrix = has_matrices ? VK_TRUE : VK_FALSE;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = physical.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* extension = VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features.core;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = has_matrices ? 1 : 0;
  info.ppEnabledExtensionNames = &extension;
  return vk.CreateDevice(physical.handle, &info, nullptr, device);
}

}  // namespace attnfuse::vulkan
#endif
