#include "backends/spirv/targets.h"

#include <algorithm>

namespace attnfuse::spirv {
namespace {

// A subgroup exchanges registers among four neighbours.
constexpr int kSmallestSubgroup = 4;

MatrixUnit fma() {
  MatrixUnit unit;
  unit.leaf = "fma";
  unit.operands = {DType::f16, DType::bf16, DType::f32};
  return unit;
}

// VK_KHR_cooperative_matrix at subgroup scope, f32 accumulators.
MatrixUnit cooperative_matrix(int m, int n, int k) {
  MatrixUnit unit;
  unit.leaf = "cooperative-matrix";
  unit.operands = {DType::f16};
  unit.m = m;
  unit.n = n;
  unit.k = k;
  unit.opaque = true;
  return unit;
}

// A graphics card of the middle class, as nothing is known about the device.
Rates rates(double matrix_tflops) {
  Rates r;
  r.cores = 40;
  r.matrix_tflops = matrix_tflops;
  r.scalar_tops = 10;
  r.special_tops = 2.5;
  r.shared_tbps = 12;
  r.memory_gbps = 400;
  r.launch_us = 8;
  return r;
}

Target base(const char* arch, const char* title, int warp_size, int shared_bytes) {
  Target t;
  t.name = std::string("spirv:") + arch;
  t.backend = "spirv";
  t.arch = arch;
  t.title = title;
  t.warp_size = warp_size;
  t.max_threads = 256;
  t.shared_bytes = shared_bytes;
  t.registers_per_thread = 255;
  t.max_grid_x = 65535;
  t.copy = CopyKind::direct;
  return t;
}

Target cooperative(const char* arch, const char* title, int size, int warp_size, int shared_kib) {
  Target t = base(arch, title, warp_size, shared_kib * 1024);
  // Eight lanes hold all of a wide head's output: only a CPU, whose registers are memory, offers them.
  if (warp_size == 8) t.registers_per_thread = 1024;
  t.units = {cooperative_matrix(size, size, size), fma()};
  t.rates = rates(60);
  // Short key tiles keep the scores of a row in few registers; measured on an H200.
  if (size == 16) t.schedules = {{{DType::f16}, 8, 128, 64, 16, 4, false}};
  return t;
}

Target plain(const char* arch, const char* title, bool lane_exchange) {
  Target t = base(arch, title, 32, 32 * 1024 - (lane_exchange ? 0 : kExchangeBytes));
  t.lane_exchange = lane_exchange;
  t.units = {fma()};
  t.rates = rates(17);
  return t;
}

bool runs(const vulkan::DeviceFacts& facts, const Target& target) {
  const int own_bytes = target.lane_exchange ? 0 : kExchangeBytes;
  if (facts.shared_bytes < target.shared_bytes + own_bytes || facts.max_threads < target.max_threads)
    return false;
  if (target.lane_exchange && (!facts.subgroup_shuffle || facts.subgroup_size < kSmallestSubgroup))
    return false;
  const MatrixUnit* unit = matrix_leaf(target);
  if (unit == nullptr) return true;
  const vulkan::MatrixShape shape{DType::f16, unit->m, unit->n, unit->k};
  return facts.has_subgroup_size(target.warp_size) &&
         std::ranges::find(facts.matrices, shape) != facts.matrices.end();
}

}  // namespace

std::vector<Target> targets() {
  return {
      cooperative("cooperative",
                  "Vulkan with 16x16x16 cooperative matrices, subgroups of 32 (NVIDIA, AMD RDNA)", 16, 32,
                  48),
      cooperative("cooperative8", "Vulkan with 8x8x8 cooperative matrices, subgroups of 8 (Mesa on the CPU)",
                  8, 8, 32),
      plain("generic", "Vulkan 1.2, subgroups of 4 to 64 with shuffle", true),
      plain("plain", "Vulkan 1.2, any subgroup: rows are reduced through shared memory", false),
  };
}

std::vector<Target> targets_of(const vulkan::DeviceFacts& facts) {
  std::vector<Target> result;
  for (Target& target : targets()) {
    if (!runs(facts, target)) continue;
    // Mesa's driver for CPUs leaves all loops of an invocation after 65,535 iterations together, without a
    // word: found to be 48,800 elements and more.
    if (facts.is_cpu) target.most_key_elements = 45000;
    result.push_back(std::move(target));
  }
  return result;
}

bool warps_are_subgroups(const Target& target) { return matrix_leaf(target) != nullptr; }

const MatrixUnit* matrix_leaf(const Target& target) {
  for (const MatrixUnit& unit : target.units)
    if (unit.opaque) return &unit;
  return nullptr;
}

}  // namespace attnfuse::spirv
