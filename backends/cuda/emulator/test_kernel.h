// Small kernels for tests of the emulator: text around a body, buffers of words, tensor maps.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <map>

#include "backends/cuda/emulator/emulator.h"
#include "backends/cuda/emulator/host_source.h"
#include "backends/cuda/prelude.h"

namespace attnfuse::cuda::testing {

using emulator::Order;
using emulator::Timing;
using Words = std::vector<std::uint32_t>;

struct Experiment {
  int threads = 32;
  int shared_bytes = 0;
  int mode = 0;
  Order order = Order::forward;
  Timing timing = Timing::late;
  std::uint32_t workgroups = 1;
};

// A map of one of the buffers.
struct MapOf {
  std::size_t buffer;
  TensorMap map;  // address: offset in the buffer
};

// What the argument block is in the text below.
struct Arguments {
  alignas(64) EncodedTensorMap maps[2];
  std::uint64_t pointers[6];
  std::int32_t mode;
};

inline std::string kernel_text(const std::string& body) {
  return std::string(prelude_types()) + "struct alignas(64) af_tensor_map { af_u64 words[16]; };\n" +
         std::string(host_intrinsics()) + R"(
AF_FN int swizzled_element(int row, int col) { return row * 64 + (((col >> 3) ^ (row & 7)) << 3) + (col & 7); }
AF_FN af_u64 descriptor(const void* tile, int leading, int stride) {
  return (af_u64(__cvta_generic_to_shared(tile)) >> 4) | af_u64(leading >> 4) << 16 | af_u64(stride >> 4) << 32 | af_u64(1) << 62;
}
struct Arguments { af_tensor_map map[2]; af_u32* p[6]; int mode; };
extern "C" __global__ void __launch_bounds__(384, 1) k(const __grid_constant__ Arguments args) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const int thread = int(threadIdx.x), lane = thread % 32, warp = thread / 32, mode = args.mode;
  const af_u64 hint = 0x1000000000000000ull;
)" + body +
         "\n}\n";
}

inline Target hopper() {
  for (const Target& target : emulated_targets())
    if (target.arch == "sm_90a") return target;
  FAIL("no sm_90a");
  return {};
}

inline bool has_compiler() {
  static const bool found = [] {
    const Result<Binary> built = compile_for_host(kernel_text(""), "k", hopper());
    const bool missing = !built && built.errors()[0].code == "toolkit.missing";
    if (missing) MESSAGE("SKIPPED: " << render(built.errors()));
    return !missing;
  }();
  return found;
}

// Runs the kernel with `body` and returns its buffers.
inline Result<std::vector<Words>> execute(const std::string& body, std::vector<Words> buffers,
                                          const Experiment& how, const std::vector<MapOf>& maps = {}) {
  static std::map<std::string, Binary> compiled;  // the same text runs many times
  if (!compiled.contains(body)) {
    const Result<Binary> built = compile_for_host(kernel_text(body), "k", hopper());
    if (!built) return built.errors();
    compiled.emplace(body, *built);
  }
  const std::shared_ptr<Device> device = make_emulator({hopper()}, {how.order, how.timing, 7});
  const Result<std::shared_ptr<Module>> module = device->load(compiled.at(body));
  if (!module) return module.errors();
  std::vector<std::shared_ptr<Buffer>> memory;
  Arguments arguments{};
  arguments.mode = how.mode;
  for (const Words& words : buffers) {
    const Result<std::shared_ptr<Buffer>> buffer = device->allocate(words.size() * 4);
    if (!buffer) return buffer.errors();
    arguments.pointers[memory.size()] = (*buffer)->address();
    memory.push_back(*buffer);
    if (Status status = device->upload(**buffer, 0, std::as_bytes(std::span(words))); !status)
      return status.errors();
  }
  for (std::size_t n = 0; n < maps.size(); ++n) {
    TensorMap map = maps[n].map;
    map.address += memory[maps[n].buffer]->address();
    const Result<EncodedTensorMap> encoded = device->encode(map);
    if (!encoded) return encoded.errors();
    arguments.maps[n] = *encoded;
  }
  const Launch launch{{how.workgroups, 1, 1}, how.threads, how.shared_bytes};
  if (Status status = device->launch(**module, launch, std::as_bytes(std::span(&arguments, 1))); !status)
    return status.errors();
  for (std::size_t n = 0; n < buffers.size(); ++n)
    if (Status status = device->download(*memory[n], 0, std::as_writable_bytes(std::span(buffers[n])));
        !status)
      return status.errors();
  return buffers;
}

inline std::string code_of(const Result<std::vector<Words>>& result) {
  return result ? "" : result.errors()[0].code;
}
inline std::string text_of(const Result<std::vector<Words>>& result) {
  return result ? "" : render(result.errors());
}

// Every order with every timing.
inline std::vector<Experiment> all_policies(Experiment how) {
  std::vector<Experiment> all;
  for (const Order order : {Order::forward, Order::reverse, Order::random})
    for (const Timing timing : {Timing::late, Timing::early, Timing::random}) {
      how.order = order;
      how.timing = timing;
      all.push_back(how);
    }
  return all;
}

// Bits of a small integer, exact in both formats.
inline std::uint16_t half_bits(int value, bool is_bf16) {
  const auto number = float(value);
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  if (is_bf16) return std::uint16_t(bits >> 16);
  if (value == 0) return 0;
  return std::uint16_t((bits >> 16 & 0x8000U) | ((bits >> 23 & 0xffU) - 127 + 15) << 10 |
                       (bits >> 13 & 0x3ffU));
}

}  // namespace attnfuse::cuda::testing
