// One wgmma product: d[64][n] += a[64][16] b[16][n], operands by descriptors of shared memory or registers.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "backends/cuda/emulator/operation.h"
#include "backends/cuda/emulator/shared_memory.h"
#include "backends/emulator/lane.h"

namespace attnfuse::cuda {

inline constexpr int kWarpgroup = 128, kProductRows = 64, kProductDepth = 16;

// What one thread says; all of a warpgroup say the same but for a's registers and the accumulators.
struct Request {
  explicit Request(const emulator::Call& call);
  bool agrees_with(const Request& other) const {
    return operation == other.operation && n == other.n && a == other.a && b == other.b &&
           accumulate == other.accumulate;
  }
  bool a_in_registers() const {
    return operation == Operation::product_registers_f16 || operation == Operation::product_registers_bf16;
  }

  Operation operation;
  int n;
  std::uint64_t a = 0, b = 0;  // descriptors
  std::array<std::uint32_t, 4> registers{};
  bool accumulate;
};

struct Product {
  explicit Product(const Request& request) : request(request) {}

  Request request;
  int group = 0;  // committed groups of its threads before it
  int threads = 0;
  std::array<std::array<std::uint32_t, 4>, kWarpgroup> registers{};
  std::array<float*, kWarpgroup> accumulators{};
  Granules granules;  // of shared memory that it reads
};

// Checks descriptors and lists what they name. "emulator.descriptor", "emulator.fault".
Granules operands(const Request& request, const SharedMemory& shared, const std::string& who);

// a b, by rows.
std::vector<float> multiply(const Product& product, const SharedMemory& shared);

// Row and column of register r of thread t: PTX ISA, "Accumulator D" of wgmma m64nNk16.
inline int product_row(int t, int r) { return t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8; }
inline int product_column(int t, int r) { return r / 4 * 8 + t % 4 * 2 + r % 2; }

}  // namespace attnfuse::cuda
