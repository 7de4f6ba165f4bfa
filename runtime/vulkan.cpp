#include "runtime/vulkan.h"

#include "runtime/vulkan_module.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace attnfuse::vulkan {
namespace {

constexpr std::size_t kStagingBytes = 16 << 20;
constexpr std::size_t kArgumentBytes = 4096;  // of a slot; larger blocks get a larger buffer
constexpr std::size_t kSlots = 64;            // launches in flight

// One launch in flight: its commands and its argument block.
struct Slot {
  VkCommandBuffer commands = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  std::shared_ptr<VulkanBuffer> arguments;
  bool pending = false;
};

// For one thread at a time.
class VulkanDevice : public Device {
 public:
  VulkanDevice(std::shared_ptr<Context> context, std::vector<Target> targets)
      : context_(std::move(context)), targets_(std::move(targets)) {}
  ~VulkanDevice() override;
  VulkanDevice(const VulkanDevice&) = delete;
  VulkanDevice& operator=(const VulkanDevice&) = delete;

  std::string name() const override { return context_->physical().facts.name; }
  Target target() const override { return targets_.front(); }
  std::vector<Target> targets() const override { return targets_; }
  Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) override;
  Status upload(Buffer& to, std::size_t offset, std::span<const std::byte> from) override;
  Status download(const Buffer& from, std::size_t offset, std::span<std::byte> to) override;
  Result<std::shared_ptr<Module>> load(const Binary& binary) override;
  Status launch(const Module& module, const Launch& launch, std::span<const std::byte> params) override;
  Status synchronize() override;
  Result<double> time(const std::function<Status()>& work) override;

 private:
  const DeviceFunctions& vk() const { return context_->vk(); }
  Status need_staging();
  Result<Slot*> next_slot();
  Result<std::shared_ptr<VulkanBuffer>> argument_buffer(std::size_t bytes) {
    return VulkanBuffer::make(context_, std::max(bytes, kArgumentBytes), MemoryKind::host);
  }
  void record_dispatch(VkCommandBuffer commands, const VulkanModule& module, const Launch& launch,
                       std::uint64_t arguments);
  Result<double> time_with(VkQueryPool queries, const std::function<Status()>& work);

  std::shared_ptr<Context> context_;
  std::vector<Target> targets_;
  std::shared_ptr<VulkanBuffer> staging_;
  std::vector<Slot> slots_;
  std::size_t next_ = 0;
  // While time() records: launches are appended here instead of being submitted.
  VkCommandBuffer recording_ = VK_NULL_HANDLE;
  std::vector<std::shared_ptr<VulkanBuffer>> recorded_arguments_;
};

VulkanDevice::~VulkanDevice() {
  context_->wait_idle();
  for (const Slot& slot : slots_) vk().DestroyFence(context_->device(), slot.fence, nullptr);
}

Result<std::shared_ptr<Buffer>> VulkanDevice::allocate(std::size_t bytes) {
  auto buffer = VulkanBuffer::make(context_, bytes, MemoryKind::device);
  if (!buffer) return buffer.errors();
  return std::shared_ptr<Buffer>(*buffer);
}

Status VulkanDevice::need_staging() {
  if (staging_ != nullptr) return Unit{};
  auto buffer = VulkanBuffer::make(context_, kStagingBytes, MemoryKind::host);
  if (!buffer) return buffer.errors();
  staging_ = *buffer;
  return Unit{};
}

Status VulkanDevice::upload(Buffer& to, std::size_t offset, std::span<const std::byte> from) {
  ATTNFUSE_CHECK(offset <= to.size() && from.size() <= to.size() - offset, "upload past the end of a buffer");
  ATTNFUSE_CHECK(recording_ == VK_NULL_HANDLE, "upload inside time()");
  if (from.empty()) return Unit{};
  auto& buffer = dynamic_cast<VulkanBuffer&>(to);
  if (Status status = synchronize(); !status) return status;
  if (buffer.mapped() != nullptr) {
    std::memcpy(buffer.mapped() + offset, from.data(), from.size());
    return Unit{};
  }
  if (Status status = need_staging(); !status) return status;
  for (std::size_t done = 0; done < from.size();) {
    const std::size_t part = std::min(kStagingBytes, from.size() - done);
    std::memcpy(staging_->mapped(), from.data() + done, part);
    const VkBufferCopy copy{0, offset + done, part};
    const VkResult result = context_->run([&](VkCommandBuffer commands) {
      vk().CmdCopyBuffer(commands, staging_->handle(), buffer.handle(), 1, &copy);
    });
    if (result != VK_SUCCESS) return failure(result, "upload");
    done += part;
  }
  return Unit{};
}

Status VulkanDevice::download(const Buffer& from, std::size_t offset, std::span<std::byte> to) {
  ATTNFUSE_CHECK(offset <= from.size() && to.size() <= from.size() - offset,
                 "download past the end of a buffer");
  ATTNFUSE_CHECK(recording_ == VK_NULL_HANDLE, "download inside time()");
  if (to.empty()) return Unit{};
  const auto& buffer = dynamic_cast<const VulkanBuffer&>(from);
  if (Status status = synchronize(); !status) return status;
  if (buffer.mapped() != nullptr) {
    std::memcpy(to.data(), buffer.mapped() + offset, to.size());
    return Unit{};
  }
  if (Status status = need_staging(); !status) return status;
  for (std::size_t done = 0; done < to.size();) {
    const std::size_t part = std::min(kStagingBytes, to.size() - done);
    const VkBufferCopy copy{offset + done, 0, part};
    const VkResult result = context_->run([&](VkCommandBuffer commands) {
      vk().CmdCopyBuffer(commands, buffer.handle(), staging_->handle(), 1, &copy);
    });
    if (result != VK_SUCCESS) return failure(result, "download");
    std::memcpy(to.data() + done, staging_->mapped(), part);
    done += part;
  }
  return Unit{};
}

Result<std::shared_ptr<Module>> VulkanDevice::load(const Binary& binary) {
  const auto found = std::ranges::find_if(targets_, [&](const Target& t) { return t.name == binary.target; });
  if (found == targets_.end())
    return Diagnostic{"device.wrong-target",
                      fmt::format("{} does not run code for {}", name(), binary.target),
                      {},
                      fmt::format("compile for {}", targets_.front().name)};
  // Matrix fragments belong to subgroups of the target's width; other kernels take any width.
  const bool needs_width = std::any_of(found->units.begin(), found->units.end(),
                                       [](const MatrixUnit& unit) { return unit.opaque; });
  auto module = VulkanModule::make(context_, binary, needs_width ? found->warp_size : 0);
  if (!module) return module.errors();
  return std::shared_ptr<Module>(*module);
}

Result<Slot*> VulkanDevice::next_slot() {
  if (slots_.size() < kSlots) {
    Slot slot;
    auto commands = context_->new_commands();
    if (!commands) return commands.errors();
    slot.commands = *commands;
    auto arguments = argument_buffer(kArgumentBytes);
    if (!arguments) return arguments.errors();
    slot.arguments = *arguments;
    VkFenceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    if (const VkResult result = vk().CreateFence(context_->device(), &info, nullptr, &slot.fence);
        result != VK_SUCCESS)
      return failure(result, "vkCreateFence");
    slots_.push_back(slot);
    return &slots_.back();
  }
  Slot& slot = slots_[next_++ % kSlots];
  if (slot.pending) {
    if (const VkResult result = vk().WaitForFences(context_->device(), 1, &slot.fence, VK_TRUE, UINT64_MAX);
        result != VK_SUCCESS)
      return failure(result, "an earlier kernel");
    vk().ResetFences(context_->device(), 1, &slot.fence);
    slot.pending = false;
  }
  return &slot;
}

void VulkanDevice::record_dispatch(VkCommandBuffer commands, const VulkanModule& module, const Launch& launch,
                                   std::uint64_t arguments) {
  full_barrier(vk(), commands);
  vk().CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, module.pipeline());
  vk().CmdPushConstants(commands, module.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(arguments),
                        &arguments);
  vk().CmdDispatch(commands, launch.grid[0], launch.grid[1], launch.grid[2]);
  full_barrier(vk(), commands);
}

Status VulkanDevice::launch(const Module& module, const Launch& launch, std::span<const std::byte> params) {
  const auto& kernel = dynamic_cast<const VulkanModule&>(module);
  ATTNFUSE_CHECK(&kernel.context() == context_.get(), "the module belongs to another device");
  ATTNFUSE_CHECK(launch.threads == kernel.threads(),
                 fmt::format("launch of {} threads, the kernel has {}", launch.threads, kernel.threads()));
  if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) return Unit{};
  if (recording_ != VK_NULL_HANDLE) {
    auto arguments = argument_buffer(params.size());
    if (!arguments) return arguments.errors();
    std::memcpy((*arguments)->mapped(), params.data(), params.size());
    recorded_arguments_.push_back(*arguments);
    record_dispatch(recording_, kernel, launch, (*arguments)->address());
    return Unit{};
  }
  const auto slot_or = next_slot();
  if (!slot_or) return slot_or.errors();
  Slot& slot = **slot_or;
  if (params.size() > slot.arguments->size()) {
    auto larger = argument_buffer(params.size());
    if (!larger) return larger.errors();
    slot.arguments = *larger;
  }
  std::memcpy(slot.arguments->mapped(), params.data(), params.size());
  if (const VkResult result = begin_commands(vk(), slot.commands); result != VK_SUCCESS)
    return failure(result, "vkBeginCommandBuffer");
  record_dispatch(slot.commands, kernel, launch, slot.arguments->address());
  if (const VkResult result = vk().EndCommandBuffer(slot.commands); result != VK_SUCCESS)
    return failure(result, "vkEndCommandBuffer");
  if (const VkResult result = submit(vk(), context_->queue(), slot.commands, slot.fence);
      result != VK_SUCCESS)
    return failure(result, "vkQueueSubmit");
  slot.pending = true;
  context_->submitted();
  return Unit{};
}

Status VulkanDevice::synchronize() {
  ATTNFUSE_CHECK(recording_ == VK_NULL_HANDLE, "synchronize inside time()");
  const VkResult result = context_->wait_idle();
  return result == VK_SUCCESS ? Status(Unit{}) : Status(failure(result, "the kernel"));
}

// What `work` launches goes into one command buffer between two timestamps: gaps of the host do not count.
Result<double> VulkanDevice::time(const std::function<Status()>& work) {
  ATTNFUSE_CHECK(recording_ == VK_NULL_HANDLE, "time inside time()");
  if (Status status = synchronize(); !status) return status.errors();
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = 2;
  VkQueryPool queries = VK_NULL_HANDLE;
  const bool has_timestamps = context_->physical().timestamp_bits != 0;
  if (has_timestamps)
    if (const VkResult result = vk().CreateQueryPool(context_->device(), &info, nullptr, &queries);
        result != VK_SUCCESS)
      return failure(result, "vkCreateQueryPool");
  auto milliseconds = time_with(queries, work);
  if (has_timestamps) vk().DestroyQueryPool(context_->device(), queries, nullptr);
  recorded_arguments_.clear();
  return milliseconds;
}

Result<double> VulkanDevice::time_with(VkQueryPool queries, const std::function<Status()>& work) {
  Status status = Unit{};
  const auto start = std::chrono::steady_clock::now();
  const VkResult result = context_->run([&](VkCommandBuffer commands) {
    if (queries != VK_NULL_HANDLE) {
      vk().CmdResetQueryPool(commands, queries, 0, 2);
      vk().CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 0);
    }
    recording_ = commands;
    status = work();
    recording_ = VK_NULL_HANDLE;
    if (queries != VK_NULL_HANDLE)
      vk().CmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, 1);
  });
  const std::chrono::duration<double, std::milli> wall = std::chrono::steady_clock::now() - start;
  if (result != VK_SUCCESS) return failure(result, "a timed kernel");
  if (!status) return status.errors();
  if (queries == VK_NULL_HANDLE) return wall.count();
  std::uint64_t ticks[2] = {};
  const VkResult read =
      vk().GetQueryPoolResults(context_->device(), queries, 0, 2, sizeof(ticks), ticks, sizeof(ticks[0]),
                               VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
  if (read != VK_SUCCESS) return failure(read, "vkGetQueryPoolResults");
  const std::uint32_t bits = context_->physical().timestamp_bits;
  const std::uint64_t mask = bits >= 64 ? ~std::uint64_t(0) : (std::uint64_t(1) << bits) - 1;
  return double((ticks[1] - ticks[0]) & mask) * context_->physical().nanoseconds_per_tick * 1e-6;
}

}  // namespace

std::vector<DeviceFacts> device_facts() {
  const auto instance = Instance::get();
  if (!instance) return {};
  std::vector<DeviceFacts> facts;
  for (const PhysicalDevice& device : usable_devices(**instance, nullptr)) facts.push_back(device.facts);
  return facts;
}

int device_count() { return int(device_facts().size()); }

Result<std::shared_ptr<Device>> open(int ordinal, TargetsOf targets_of) {
  const auto instance = Instance::get();
  if (!instance) return instance.errors();
  std::vector<std::string> rejected;
  const std::vector<PhysicalDevice> devices = usable_devices(**instance, &rejected);
  if (devices.empty() && rejected.empty())
    return Diagnostic{"device.none",
                      "Vulkan: there is no device",
                      {},
                      "install a Vulkan driver (Debian: mesa-vulkan-drivers runs on the CPU)"};
  if (devices.empty())
    return Diagnostic{"device.none",
                      fmt::format("Vulkan: no device has the needed features: {}", fmt::join(rejected, "; ")),
                      {},
                      "update the driver or use another device"};
  if (ordinal < 0 || std::size_t(ordinal) >= devices.size())
    return Diagnostic{"device.none",
                      fmt::format("Vulkan: device {} of {}", ordinal, devices.size()),
                      {},
                      fmt::format("use a number from 0 to {}", devices.size() - 1)};
  const PhysicalDevice& chosen = devices[std::size_t(ordinal)];
  std::vector<Target> targets = targets_of(chosen.facts);
  if (targets.empty())
    return Diagnostic{
        "device.none",
        fmt::format("Vulkan: {} runs none of the targets: {} bytes of shared memory, {} threads",
                    chosen.facts.name, chosen.facts.shared_bytes, chosen.facts.max_threads),
        {},
        "use another device"};
  auto context = std::make_shared<Context>(*instance, chosen);
  if (Status status = context->create(); !status) return status.errors();
  return std::shared_ptr<Device>(std::make_shared<VulkanDevice>(std::move(context), std::move(targets)));
}

}  // namespace attnfuse::vulkan

#else

namespace attnfuse::vulkan {

std::vector<DeviceFacts> device_facts() { return {}; }
int device_count() { return 0; }
Result<std::shared_ptr<Device>> open(int, TargetsOf) {
  return Diagnostic{"backend.compiled-out",
                    "Vulkan: this program was built without the Vulkan headers",
                    {},
                    "install them (Debian: libvulkan-dev) and build again"};
}

}  // namespace attnfuse::vulkan
#endif
