// A logical device with its queue, buffers and command buffers. Internal to runtime/vulkan*.cpp.
#pragma once

#include "runtime/vulkan_physical.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <functional>

namespace attnfuse::vulkan {

// Everything that buffers and modules need to outlive: they share it.
class Context {
 public:
  explicit Context(std::shared_ptr<const Instance> instance, PhysicalDevice physical)
      : instance_(std::move(instance)), physical_(std::move(physical)) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Status create();

  const DeviceFunctions& vk() const { return functions_; }
  VkDevice device() const { return device_; }
  VkQueue queue() const { return queue_; }
  VkCommandPool pool() const { return pool_; }
  const PhysicalDevice& physical() const { return physical_; }

  // Called after a submission; wait_idle is free when there was none since the last wait.
  void submitted() { busy_ = true; }
  VkResult wait_idle();
  // Records with `record`, submits and waits.
  VkResult run(const std::function<void(VkCommandBuffer)>& record);
  Result<VkCommandBuffer> new_commands();

 private:
  std::shared_ptr<const Instance> instance_;
  PhysicalDevice physical_;
  DeviceFunctions functions_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer run_commands_ = VK_NULL_HANDLE;
  bool busy_ = false;
};

enum class MemoryKind : std::uint8_t { device, host };

class VulkanBuffer : public Buffer {
 public:
  explicit VulkanBuffer(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~VulkanBuffer() override;
  VulkanBuffer(const VulkanBuffer&) = delete;
  VulkanBuffer& operator=(const VulkanBuffer&) = delete;
  static Result<std::shared_ptr<VulkanBuffer>> make(std::shared_ptr<Context> context, std::size_t bytes,
                                                    MemoryKind kind);

  std::uint64_t address() const override { return address_; }
  std::size_t size() const override { return size_; }
  VkBuffer handle() const { return buffer_; }
  std::byte* mapped() const { return mapped_; }  // null where the host cannot reach the memory

 private:
  Status create(std::size_t bytes, MemoryKind kind);

  std::shared_ptr<Context> context_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::byte* mapped_ = nullptr;
  std::uint64_t address_ = 0;
  std::size_t size_ = 0;
};

VkResult begin_commands(const DeviceFunctions& vk, VkCommandBuffer commands);
VkResult submit(const DeviceFunctions& vk, VkQueue queue, VkCommandBuffer commands, VkFence fence);
// Everything before is finished and visible to everything after.
void full_barrier(const DeviceFunctions& vk, VkCommandBuffer commands);

}  // namespace attnfuse::vulkan
#endif
