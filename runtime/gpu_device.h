// Device over a GPU vendor's driver: ownership, bounds, diagnostics and timing once, the calls by vendor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace attnfuse {

// The driver calls that a device needs, for one GPU. Codes are the vendor's; 0 = success.
class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  virtual std::string device_name() const = 0;
  // Around every other call, on whatever thread. restore() gives the thread back what make_current() found.
  virtual int make_current(void*& found) = 0;
  virtual void restore(void* found) = 0;
  virtual int allocate(std::uint64_t& address, std::size_t bytes) = 0;
  virtual int release(std::uint64_t address) = 0;
  virtual int upload(std::uint64_t to, const void* from, std::size_t bytes) = 0;
  virtual int download(void* to, std::uint64_t from, std::size_t bytes) = 0;
  virtual int load(void*& module, const void* image) = 0;
  virtual int unload(void* module) = 0;
  // Allows the function all the dynamic shared memory that the device has left for it.
  virtual int find_function(void*& function, void* module, const char* entry) = 0;
  virtual int launch(void* function, const Launch& launch, const void* params, std::size_t param_bytes) = 0;
  virtual int state(StreamState& state, void* stream);
  // Machines without a copy engine leave `supported` false.
  virtual int encode(EncodedTensorMap& encoded, const TensorMap& map, bool& supported);
  virtual int synchronize() = 0;
  virtual int create_event(void*& event) = 0;
  virtual int destroy_event(void* event) = 0;
  virtual int record(void* event) = 0;
  virtual int elapsed(float& milliseconds, void* from, void* to) = 0;  // waits for `to`
  virtual std::string error_text(int code) const = 0;
  virtual bool is_out_of_memory(int code) const = 0;
};

// `targets`: what the GPU runs, best first, not empty. Diagnostics: "device.out-of-memory", "device.failed".
std::shared_ptr<Device> make_gpu_device(std::shared_ptr<GpuDriver> driver, std::vector<Target> targets);

}  // namespace attnfuse
