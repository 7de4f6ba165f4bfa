#include "runtime/vulkan_api.h"

#ifdef ATTNFUSE_HAS_VULKAN
#include <fmt/format.h>

#include <mutex>

#include "runtime/library.h"

namespace attnfuse::vulkan {

std::string_view result_name(VkResult result) {
  switch (int(result)) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_NOT_READY:
      return "VK_NOT_READY";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_INCOMPLETE:
      return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    case VK_ERROR_UNKNOWN:
      return "VK_ERROR_UNKNOWN";
    case VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS:
      return "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS";
  }
  return "an unknown VkResult";
}

Diagnostic failure(VkResult result, std::string_view what) {
  const bool memory = result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY;
  return {memory ? "device.out-of-memory" : "device.failed",
          fmt::format("Vulkan: {} failed: {} ({})", what, result_name(result), int(result)),
          {},
          memory ? "use smaller tensors, or free memory on the device" : ""};
}

Result<std::shared_ptr<const Instance>> Instance::get() {
  static std::mutex mutex;
  // Never destroyed: drivers have exit handlers and threads of their own, so their code must stay loaded.
  static auto* const kept = new std::shared_ptr<const Instance>();
  const std::lock_guard lock(mutex);
  if (*kept != nullptr) return *kept;
  auto created = create();
  if (created) *kept = *created;
  return created;
}

Result<std::shared_ptr<const Instance>> Instance::create() {
  Library library = Library::open({"libvulkan.so.1", "libvulkan.so"});
  if (!library)
    return Diagnostic{
        "driver.missing",
        fmt::format("Vulkan: libvulkan.so.1 cannot be loaded ({})", library.error()),
        {},
        "install the Vulkan loader (Debian: libvulkan1) and a driver (mesa-vulkan-drivers runs on the CPU)"};
  auto instance = std::make_shared<Instance>();
  library.bind("vkGetInstanceProcAddr", instance->GetInstanceProcAddr);
  if (instance->GetInstanceProcAddr == nullptr)
    return Diagnostic{"driver.missing",
                      fmt::format("Vulkan: {} has no vkGetInstanceProcAddr", library.name()),
                      {},
                      "reinstall the Vulkan loader"};
  const auto create_instance =
      reinterpret_cast<PFN_vkCreateInstance>(instance->GetInstanceProcAddr(nullptr, "vkCreateInstance"));

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "attnfuse";
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  const VkResult result = create_instance(&info, nullptr, &instance->handle);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
    return Diagnostic{"device.none",
                      "Vulkan: the loader found no driver",
                      {},
                      "install a Vulkan driver (Debian: mesa-vulkan-drivers runs on the CPU)"};
  if (result != VK_SUCCESS) return failure(result, "vkCreateInstance");

  bool complete = true;
#define ATTNFUSE_VULKAN_LOAD(function)                                                                     \
  instance->function =                                                                                     \
      reinterpret_cast<PFN_vk##function>(instance->GetInstanceProcAddr(instance->handle, "vk" #function)); \
  complete = complete && instance->function != nullptr;
  ATTNFUSE_VULKAN_INSTANCE_FUNCTIONS(ATTNFUSE_VULKAN_LOAD)
#undef ATTNFUSE_VULKAN_LOAD
  if (!complete)
    return Diagnostic{
        "driver.missing", "Vulkan: the loader is older than Vulkan 1.1", {}, "install a newer Vulkan loader"};
  return std::shared_ptr<const Instance>(std::move(instance));
}

Instance::~Instance() {
  if (handle != VK_NULL_HANDLE && DestroyInstance != nullptr) DestroyInstance(handle, nullptr);
}

}  // namespace attnfuse::vulkan
#endif
