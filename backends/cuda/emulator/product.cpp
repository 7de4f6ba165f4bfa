#include "backends/cuda/emulator/product.h"

#include <fmt/format.h>

#include <cstring>

#include "backends/cuda/emulator/bulk.h"
#include "backends/emulator/half.h"
#include "backends/emulator/machine.h"

namespace attnfuse::cuda {
namespace {

using emulator::Half;

constexpr std::uint32_t kRowBytes = 128, kRows = 8, kPanelColumns = 64;

// Bits [0,14) address, [16,30) leading bytes, [32,46) stride bytes, each over 16; [49,52) base offset;
// [62,64) swizzle mode, 1: rows of 128 bytes.
struct Descriptor {
  std::uint32_t start, leading, stride;
};
constexpr std::uint64_t kDescriptorBits = 0x3fff | 0x3fffULL << 16 | 0x3fffULL << 32 | 3ULL << 62;

Descriptor decode(std::uint64_t bits, const std::string& who) {
  const auto field = [&](int at) { return std::uint32_t(bits >> at & 0x3fff) << 4; };
  if ((bits & ~kDescriptorBits) != 0 || bits >> 62 != 1)
    emulator::fail(
        "emulator.descriptor",
        fmt::format("{}: descriptor {:#x} does not say 128-byte swizzle, or says more", who, bits));
  const Descriptor result = {field(0), field(16), field(32)};
  if ((result.start / kRowBytes) % kRows != 0)
    emulator::fail("emulator.descriptor",
                   fmt::format("{}: the tile at {} does not start at a multiple of 1024 bytes", who,
                               offset_text(result.start / kRowBytes * kRowBytes)));
  return result;
}

// K-major: element (row, k), rows of the m or n side.
std::uint32_t place_by_rows(const Descriptor& d, int row, int k) {
  const auto r = std::uint32_t(row);
  return swizzled(d.start + r / kRows * d.stride + r % kRows * kRowBytes + std::uint32_t(k) * 2);
}

// MN-major: element (k, n) of panels of 64 columns.
std::uint32_t place_by_depth(const Descriptor& d, int k, int n) {
  const auto depth = std::uint32_t(k), column = std::uint32_t(n);
  return swizzled(d.start + column / kPanelColumns * d.leading + depth / kRows * d.stride +
                  depth % kRows * kRowBytes + column % kPanelColumns * 2);
}

void add(Granules& granules, std::uint32_t address, const SharedMemory& shared, const std::string& who) {
  if (!shared.contains(address, SharedMemory::kGranule))
    emulator::fail("emulator.fault", fmt::format("{} reads past shared memory, at {:#x}", who, address));
  granules.push_back(address / SharedMemory::kGranule);
}

constexpr int kElements = SharedMemory::kGranule / 2;

}  // namespace

Request::Request(const emulator::Call& call) : operation(Operation(call.operation)), n(call.immediate) {
  const std::uint64_t* in = words(call.operands);
  if (a_in_registers()) {
    for (int r = 0; r < 4; ++r) registers[std::size_t(r)] = std::uint32_t(in[r]);
    b = in[4];
    accumulate = in[5] != 0;
  } else {
    a = in[0];
    b = in[1];
    accumulate = in[2] != 0;
  }
}

Granules operands(const Request& request, const SharedMemory& shared, const std::string& who) {
  Granules granules;
  const auto by_rows = [&](std::uint64_t bits, int rows, const char* which) {
    const std::string of = fmt::format("operand {} of {}", which, who);
    const Descriptor d = decode(bits, of);
    if (d.start % kRowBytes + kProductDepth * 2 > kRowBytes)
      emulator::fail("emulator.descriptor", of + " leaves its rows of 128 bytes");
    for (int row = 0; row < rows; ++row)
      for (int k = 0; k < kProductDepth; k += kElements) add(granules, place_by_rows(d, row, k), shared, of);
  };
  if (!request.a_in_registers()) {
    by_rows(request.a, kProductRows, "a");
    by_rows(request.b, request.n, "b");
    return granules;
  }
  const std::string of = "operand b of " + who;
  const Descriptor d = decode(request.b, of);
  if (d.start % kRowBytes != 0)
    emulator::fail("emulator.descriptor", of + " does not start at the first of its 64 columns");
  for (int k = 0; k < kProductDepth; ++k)
    for (int n = 0; n < request.n; n += kElements) add(granules, place_by_depth(d, k, n), shared, of);
  return granules;
}

std::vector<float> multiply(const Product& product, const SharedMemory& shared) {
  const Request& request = product.request;
  const int n = request.n;
  const Half type = request.operation == Operation::product_shared_f16 ||
                            request.operation == Operation::product_registers_f16
                        ? Half::f16
                        : Half::bf16;
  const auto read = [&](std::uint32_t address, float* to, int step) {
    std::uint16_t bits[kElements];
    std::memcpy(bits, shared.at(address), sizeof bits);
    for (int e = 0; e < kElements; ++e) to[e * step] = emulator::decode(bits[e], type);
  };
  std::vector<float> a(std::size_t(kProductRows * kProductDepth)),
      b(std::size_t(kProductDepth * n));  // by rows
  const Descriptor of_b = decode(request.b, "b");
  if (request.a_in_registers()) {
    // Register pair p of a: row + 8 (p % 2), columns 2 (t % 4) + 8 (p / 2) and the next.
    for (int t = 0; t < kWarpgroup; ++t)
      for (int r = 0; r < 8; ++r) {
        const std::uint32_t pair = product.registers[std::size_t(t)][std::size_t(r / 2)];
        const int row = t / 32 * 16 + t % 32 / 4 + r / 2 % 2 * 8, column = t % 4 * 2 + r % 2 + r / 4 * 8;
        a[std::size_t(row * kProductDepth + column)] =
            emulator::decode(std::uint16_t(pair >> 16 * (r % 2)), type);
      }
    for (int k = 0; k < kProductDepth; ++k)
      for (int column = 0; column < n; column += kElements)
        read(place_by_depth(of_b, k, column), &b[std::size_t(k * n + column)], 1);
  } else {
    const Descriptor of_a = decode(request.a, "a");
    for (int k = 0; k < kProductDepth; k += kElements) {
      for (int row = 0; row < kProductRows; ++row)
        read(place_by_rows(of_a, row, k), &a[std::size_t(row * kProductDepth + k)], 1);
      for (int column = 0; column < n; ++column)
        read(place_by_rows(of_b, column, k), &b[std::size_t(k * n + column)], n);
    }
  }
  std::vector<float> d(std::size_t(kProductRows * n));
  for (int row = 0; row < kProductRows; ++row)
    for (int k = 0; k < kProductDepth; ++k) {
      const float x = a[std::size_t(row * kProductDepth + k)];
      const float* y = &b[std::size_t(k * n)];
      float* to = &d[std::size_t(row * n)];
      for (int column = 0; column < n; ++column) to[column] += x * y[column];
    }
  return d;
}

}  // namespace attnfuse::cuda
