#include <fmt/format.h>

#include "runtime/capi/handles.h"

using namespace attnfuse;
using namespace attnfuse::capi;

namespace {

// The buffer at an address that attnfuse_alloc gave, if `bytes` from `offset` on lie inside.
Result<std::shared_ptr<Buffer>> find_buffer(attnfuse_device& device, const void* data, std::size_t offset,
                                            std::size_t bytes) {
  const std::lock_guard lock(device.mutex);
  const auto found = device.buffers.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == device.buffers.end())
    return Diagnostic{
        "", fmt::format("{} is not memory that attnfuse_alloc gave on this device", data), {}, ""};
  const std::size_t size = found->second->size();
  if (offset > size || bytes > size - offset)
    return Diagnostic{
        "", fmt::format("{} bytes at offset {} do not lie in {} bytes", bytes, offset, size), {}, ""};
  return found->second;
}

}  // namespace

attnfuse_status attnfuse_device_open(const char* target, attnfuse_device** device) {
  return guarded([&] {
    if (!device) return bad_argument("attnfuse_device_open: device is null");
    auto machine = open_machine(target ? target : "cuda");
    if (!machine) return fail(machine.errors());
    std::string name = machine->device->name();
    *device = new attnfuse_device{std::move(machine).value(), std::move(name), {}};
    return ATTNFUSE_OK;
  });
}

void attnfuse_device_close(attnfuse_device* device) { delete device; }

const char* attnfuse_device_name(const attnfuse_device* device) { return device ? device->name.c_str() : ""; }

const char* attnfuse_device_target(const attnfuse_device* device) {
  return device ? device->machine.target.name.c_str() : "";
}

attnfuse_status attnfuse_alloc(attnfuse_device* device, size_t bytes, void** data) {
  return guarded([&] {
    if (!device || !data) return bad_argument("attnfuse_alloc: device or data is null");
    auto buffer = device->machine.device->allocate(std::max<std::size_t>(bytes, 1));
    if (!buffer) return fail(buffer.errors());
    const std::uint64_t address = (*buffer)->address();
    const std::lock_guard lock(device->mutex);
    device->buffers[address] = std::move(buffer).value();
    *data = reinterpret_cast<void*>(address);
    return ATTNFUSE_OK;
  });
}

attnfuse_status attnfuse_free(attnfuse_device* device, void* data) {
  return guarded([&] {
    if (!device) return bad_argument("attnfuse_free: device is null");
    if (!data) return ATTNFUSE_OK;
    auto buffer = find_buffer(*device, data, 0, 0);
    if (!buffer) return bad_argument("attnfuse_free: " + buffer.errors()[0].message);
    const std::lock_guard lock(device->mutex);
    device->buffers.erase((*buffer)->address());
    return ATTNFUSE_OK;
  });
}

attnfuse_status attnfuse_upload(attnfuse_device* device, void* data, size_t offset, const void* from,
                                size_t bytes) {
  return guarded([&] {
    if (!device || !data || (!from && bytes > 0)) return bad_argument("attnfuse_upload: a null argument");
    const auto buffer = find_buffer(*device, data, offset, bytes);
    if (!buffer) return bad_argument("attnfuse_upload: " + buffer.errors()[0].message);
    const auto status =
        device->machine.device->upload(**buffer, offset, {static_cast<const std::byte*>(from), bytes});
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}

attnfuse_status attnfuse_download(attnfuse_device* device, const void* data, size_t offset, void* to,
                                  size_t bytes) {
  return guarded([&] {
    if (!device || !data || (!to && bytes > 0)) return bad_argument("attnfuse_download: a null argument");
    const auto buffer = find_buffer(*device, data, offset, bytes);
    if (!buffer) return bad_argument("attnfuse_download: " + buffer.errors()[0].message);
    const auto status =
        device->machine.device->download(**buffer, offset, {static_cast<std::byte*>(to), bytes});
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}

attnfuse_status attnfuse_synchronize(attnfuse_device* device) {
  return guarded([&] {
    if (!device) return bad_argument("attnfuse_synchronize: device is null");
    const auto status = device->machine.device->synchronize();
    return status ? ATTNFUSE_OK : fail(status.errors());
  });
}
