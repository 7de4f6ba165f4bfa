#include "runtime/vulkan_context.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <fmt/format.h>

#include <algorithm>

namespace attnfuse::vulkan {

Status Context::create() {
  if (const VkResult result = create_logical_device(*instance_, physical_, &device_); result != VK_SUCCESS)
    return failure(result, "vkCreateDevice for " + physical_.facts.name);
#define ATTNFUSE_VULKAN_LOAD(function)                                                           \
  functions_.function =                                                                          \
      reinterpret_cast<PFN_vk##function>(instance_->GetDeviceProcAddr(device_, "vk" #function)); \
  if (functions_.function == nullptr)                                                            \
    return Diagnostic{                                                                           \
        "device.failed", "Vulkan: the driver of " + physical_.facts.name + " has no vk" #function, {}, ""};
  ATTNFUSE_VULKAN_DEVICE_FUNCTIONS(ATTNFUSE_VULKAN_LOAD)
#undef ATTNFUSE_VULKAN_LOAD
  functions_.GetDeviceQueue(device_, physical_.queue_family, 0, &queue_);
  VkCommandPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  info.queueFamilyIndex = physical_.queue_family;
  if (const VkResult result = functions_.CreateCommandPool(device_, &info, nullptr, &pool_);
      result != VK_SUCCESS)
    return failure(result, "vkCreateCommandPool");
  auto commands = new_commands();
  if (!commands) return commands.errors();
  run_commands_ = *commands;
  return Unit{};
}

Context::~Context() {
  if (device_ == VK_NULL_HANDLE || functions_.DestroyDevice == nullptr) return;
  if (functions_.DeviceWaitIdle != nullptr) functions_.DeviceWaitIdle(device_);
  if (pool_ != VK_NULL_HANDLE) functions_.DestroyCommandPool(device_, pool_, nullptr);
  functions_.DestroyDevice(device_, nullptr);
}

VkResult Context::wait_idle() {
  if (!busy_) return VK_SUCCESS;
  busy_ = false;
  return functions_.QueueWaitIdle(queue_);
}

Result<VkCommandBuffer> Context::new_commands() {
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  if (const VkResult result = functions_.AllocateCommandBuffers(device_, &info, &commands);
      result != VK_SUCCESS)
    return failure(result, "vkAllocateCommandBuffers");
  return commands;
}

VkResult Context::run(const std::function<void(VkCommandBuffer)>& record) {
  if (const VkResult result = begin_commands(functions_, run_commands_); result != VK_SUCCESS) return result;
  full_barrier(functions_, run_commands_);
  record(run_commands_);
  full_barrier(functions_, run_commands_);
  if (const VkResult result = functions_.EndCommandBuffer(run_commands_); result != VK_SUCCESS) return result;
  if (const VkResult result = submit(functions_, queue_, run_commands_, VK_NULL_HANDLE); result != VK_SUCCESS)
    return result;
  busy_ = false;
  return functions_.QueueWaitIdle(queue_);
}

VkResult begin_commands(const DeviceFunctions& vk, VkCommandBuffer commands) {
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  return vk.BeginCommandBuffer(commands, &info);
}

VkResult submit(const DeviceFunctions& vk, VkQueue queue, VkCommandBuffer commands, VkFence fence) {
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  return vk.QueueSubmit(queue, 1, &info, fence);
}

void full_barrier(const DeviceFunctions& vk, VkCommandBuffer commands) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT | VK_ACCESS_HOST_READ_BIT;
  constexpr VkPipelineStageFlags kStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT | VK_PIPELINE_STAGE_HOST_BIT;
  vk.CmdPipelineBarrier(commands, kStages, kStages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

namespace {

// The first type (drivers list the best first) with `wanted` and nothing unusual.
std::optional<std::uint32_t> find_type(const VkPhysicalDeviceMemoryProperties& memory, std::uint32_t allowed,
                                       VkMemoryPropertyFlags wanted) {
  constexpr VkMemoryPropertyFlags kUnusual =
      VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
      VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
  for (std::uint32_t k = 0; k < memory.memoryTypeCount; ++k) {
    const VkMemoryPropertyFlags flags = memory.memoryTypes[k].propertyFlags;
    if ((allowed >> k & 1U) != 0 && (flags & wanted) == wanted && (flags & kUnusual) == 0) return k;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> choose_type(const VkPhysicalDeviceMemoryProperties& memory,
                                         std::uint32_t allowed, MemoryKind kind) {
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  switch (kind) {
    case MemoryKind::device:
      if (const auto type = find_type(memory, allowed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT)) return type;
      return find_type(memory, allowed, kHost);
    case MemoryKind::host:
      if (const auto type = find_type(memory, allowed, kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT))
        return type;
      return find_type(memory, allowed, kHost);
  }
  return std::nullopt;
}

Diagnostic too_large(std::size_t bytes, std::uint64_t limit, const std::string& device) {
  return {"device.out-of-memory",
          fmt::format("Vulkan: {} bytes are more than {} allocates at once ({} bytes)", bytes, device, limit),
          {},
          "use smaller tensors"};
}

}  // namespace

Result<std::shared_ptr<VulkanBuffer>> VulkanBuffer::make(std::shared_ptr<Context> context, std::size_t bytes,
                                                         MemoryKind kind) {
  auto buffer = std::make_shared<VulkanBuffer>(std::move(context));
  if (Status status = buffer->create(bytes, kind); !status) return status.errors();
  return buffer;
}

Status VulkanBuffer::create(std::size_t bytes, MemoryKind kind) {
  const DeviceFunctions& vk = context_->vk();
  const PhysicalDevice& physical = context_->physical();
  size_ = bytes;
  if (bytes > physical.max_buffer_bytes)
    return too_large(bytes, physical.max_buffer_bytes, physical.facts.name);
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = std::max<std::size_t>(bytes, 16);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT |
               VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (const VkResult result = vk.CreateBuffer(context_->device(), &info, nullptr, &buffer_);
      result != VK_SUCCESS)
    return failure(result, fmt::format("a buffer of {} bytes", bytes));
  VkMemoryRequirements needs{};
  vk.GetBufferMemoryRequirements(context_->device(), buffer_, &needs);
  const auto type = choose_type(physical.memory, needs.memoryTypeBits, kind);
  if (!type)
    return Diagnostic{
        "device.failed", "Vulkan: " + physical.facts.name + " has no memory for buffers", {}, ""};
  const VkMemoryType& chosen = physical.memory.memoryTypes[*type];
  const std::uint64_t heap = physical.memory.memoryHeaps[chosen.heapIndex].size;
  if (needs.size > heap) return too_large(bytes, heap, physical.facts.name);

  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.pNext = &flags;
  allocation.allocationSize = needs.size;
  allocation.memoryTypeIndex = *type;
  if (const VkResult result = vk.AllocateMemory(context_->device(), &allocation, nullptr, &memory_);
      result != VK_SUCCESS)
    return failure(result, fmt::format("allocation of {} bytes", bytes));
  if (const VkResult result = vk.BindBufferMemory(context_->device(), buffer_, memory_, 0);
      result != VK_SUCCESS)
    return failure(result, "vkBindBufferMemory");
  constexpr VkMemoryPropertyFlags kHost =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if ((chosen.propertyFlags & kHost) == kHost) {
    void* mapped = nullptr;
    if (const VkResult result = vk.MapMemory(context_->device(), memory_, 0, VK_WHOLE_SIZE, 0, &mapped);
        result != VK_SUCCESS)
      return failure(result, "vkMapMemory");
    mapped_ = static_cast<std::byte*>(mapped);
  }
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = buffer_;
  address_ = vk.GetBufferDeviceAddress(context_->device(), &address);
  return Unit{};
}

// A kernel that still runs may use the memory.
VulkanBuffer::~VulkanBuffer() {
  const DeviceFunctions& vk = context_->vk();
  context_->wait_idle();
  if (buffer_ != VK_NULL_HANDLE) vk.DestroyBuffer(context_->device(), buffer_, nullptr);
  if (memory_ != VK_NULL_HANDLE) vk.FreeMemory(context_->device(), memory_, nullptr);
}

}  // namespace attnfuse::vulkan
#endif
