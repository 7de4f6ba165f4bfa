// Device: what the runtime needs from a machine. Implementations dlopen their driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/target.h"

namespace attnfuse {

// Static facts an assembler reports; -1 = not reported.
struct Resources {
  int registers = -1;
  int spill_bytes = -1;
  int shared_bytes = -1;
};

struct Binary {
  std::string target;  // target name
  std::string format;  // "cubin", "hsaco", "spirv"
  std::string entry;
  std::vector<std::byte> bytes;
  Resources resources;
  std::string log;  // assembler messages
};

// Device memory; freed on destruction. address() is what kernels receive.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::uint64_t address() const = 0;
  virtual std::size_t size() const = 0;
};

class Module {
 public:
  virtual ~Module() = default;
};

// A tensor as a copy engine sees it, with boxes of box_rows x box_columns along (s, d).
struct TensorMap {
  std::uint64_t address = 0;
  DType type = DType::bf16;
  std::array<std::int64_t, 4> extents{};        // d, s, h, b
  std::array<std::int64_t, 3> strides_bytes{};  // s, h, b
  int box_columns = 0, box_rows = 0;
  bool operator==(const TensorMap&) const = default;
};
using EncodedTensorMap = std::array<std::byte, 128>;

struct Launch {
  std::uint32_t grid[3] = {1, 1, 1};
  int threads = 1;                 // per workgroup
  int shared_bytes = 0;            // dynamic, where the machine has that
  void* stream = nullptr;          // the driver's handle; null = its default stream
  bool overlaps_previous = false;  // may start before the launch ahead of it ends: its kernel waits by itself
};

// What a launch on a stream has to know about it.
struct StreamState {
  std::uint64_t id = 0;    // launches of one id run one after the other
  bool capturing = false;  // launches are recorded, to run any number of times later
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual Target target() const = 0;  // the best target this device runs
  virtual std::vector<Target> targets() const { return {target()}; }
  virtual Result<std::shared_ptr<Buffer>> allocate(std::size_t bytes) = 0;
  virtual Status upload(Buffer& to, std::size_t offset, std::span<const std::byte> from) = 0;
  virtual Status download(const Buffer& from, std::size_t offset, std::span<std::byte> to) = 0;
  virtual Result<std::shared_ptr<Module>> load(const Binary& binary) = 0;
  // Asynchronous; params are copied. Allocates nothing, where the driver does not.
  virtual Status launch(const Module& module, const Launch& launch, std::span<const std::byte> params) = 0;
  virtual Result<StreamState> state(void* stream);
  // For a ParamField of kind tensor_map. Machines without a copy engine: "device.failed".
  virtual Result<EncodedTensorMap> encode(const TensorMap& map);
  virtual Status synchronize() = 0;
  // Stray accesses, races and missing barriers of a kernel are diagnostics or wrong numbers, every time.
  virtual bool watches_kernels() const { return false; }
  // Device time of what `work` launches, in milliseconds.
  virtual Result<double> time(const std::function<Status()>& work) = 0;
};

}  // namespace attnfuse
