// Physical devices: which there are, what they report, and what they lack. Internal to runtime/vulkan*.cpp.
#pragma once

#include "runtime/vulkan.h"
#include "runtime/vulkan_api.h"

#ifdef ATTNFUSE_HAS_VULKAN
namespace attnfuse::vulkan {

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  DeviceFacts facts;
  std::vector<std::string> missing;  // needed features it lacks; empty = usable
  std::uint32_t queue_family = 0;
  std::uint32_t timestamp_bits = 0;
  double nanoseconds_per_tick = 1;
  std::uint64_t max_buffer_bytes = 0;
  VkPhysicalDeviceMemoryProperties memory{};
  bool is_version_1_3 = false;
  bool size_control = false, full_subgroups = false;  // subgroup size control
  bool memory_model = false;
  bool keeps_nan = false;  // knows the demand that zeros' signs, infinities and NaN are kept in f32
};

// Usable devices, in order of preference; `rejected` lists the others as "name: lacks a, b".
std::vector<PhysicalDevice> usable_devices(const Instance& instance, std::vector<std::string>* rejected);

// The logical device with every feature that kernels use and the device has.
VkResult create_logical_device(const Instance& instance, const PhysicalDevice& physical, VkDevice* device);

}  // namespace attnfuse::vulkan
#endif
