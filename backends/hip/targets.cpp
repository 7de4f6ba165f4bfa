#include "backends/hip/targets.h"

namespace attnfuse::hip {
namespace {

constexpr TileAxis kRow = TileAxis::row, kCol = TileAxis::col;
const std::vector<DType> kHalf = {DType::f16, DType::bf16};

// All matrix units compute transposed products, S^T = K Q^T and O^T = V^T P^T: a query stays on its lane, and
// the accumulator of the first product is an operand of the second.
MatrixUnit matrix(const char* leaf, int mn, int k, FragmentLayout operand, FragmentLayout accumulator) {
  MatrixUnit unit;
  unit.leaf = leaf;
  unit.operands = kHalf;
  unit.m = unit.n = mn;
  unit.k = k;
  unit.a = unit.b = std::move(operand);
  unit.accumulator = std::move(accumulator);
  unit.transposed = true;
  unit.accumulator_is_operand = true;
  return unit;
}

// Two v_mfma_f32_32x32x8, so that each half of the wave holds eight consecutive k. Lane l of the instruction
// holds row l%32, k = 4*(l/32)+0..3; accumulator register 4*s+e of half h is row 8*s+4*h+e. Rows of the m
// side are fed permuted, that row from tile row 16*(s/2)+8*h+4*(s%2)+e: packed, eight accumulator registers
// are eight consecutive k of the next product's operand. The layouts below name tile rows.
MatrixUnit mfma() {
  MatrixUnit unit = matrix("mfma", 32, 16, {{{8, kCol, 1}}, {{32, kRow, 1}, {2, kCol, 8}}, {}},
                           {{{8, kRow, 1}, {2, kRow, 16}}, {{32, kCol, 1}, {2, kRow, 8}}, {}});
  unit.a.lanes = {{4, kRow, 1}, {2, kRow, 8}, {2, kRow, 4}, {2, kRow, 16}, {2, kCol, 8}};
  return unit;
}

// v_wmma_f32_16x16x16 of RDNA 3: a lane holds a whole row, lanes 16-31 repeat lanes 0-15; accumulator
// register r is row 2*r + l/16. Rows of the m side are fed permuted, instruction row 2*r + h from tile row
// 8*h + r, so that each half of the wave owns eight consecutive rows; the layouts below name tile rows.
MatrixUnit wmma_rdna3() {
  MatrixUnit unit = matrix("wmma", 16, 16, {{{16, kCol, 1}}, {{16, kRow, 1}, {2, kRow, 0}}, {}},
                           {{{8, kRow, 1}}, {{16, kCol, 1}, {2, kRow, 8}}, {}});
  unit.a.lanes = {{2, kRow, 8}, {8, kRow, 1}, {2, kRow, 0}};
  return unit;
}

// v_wmma_f32_16x16x16 of RDNA 4: lane l holds row l%16, k = 8*(l/16)+0..7; accumulator register r is row
// 8*(l/16)+r.
MatrixUnit wmma_rdna4() {
  return matrix("wmma_gfx12", 16, 16, {{{8, kCol, 1}}, {{16, kRow, 1}, {2, kCol, 8}}, {}},
                {{{8, kRow, 1}}, {{16, kCol, 1}, {2, kRow, 8}}, {}});
}

MatrixUnit fma() {
  MatrixUnit unit;
  unit.leaf = "fma";
  unit.operands = {DType::f16, DType::bf16, DType::f32};
  return unit;
}

Target target(const std::string& backend, const char* arch, const char* title, int warp_size,
              std::vector<MatrixUnit> units) {
  Target t;
  t.name = backend + ":" + arch;
  t.backend = backend;
  t.arch = arch;
  t.title = title;
  t.warp_size = warp_size;
  t.max_threads = 1024;
  t.shared_bytes = 64 * 1024;
  t.registers_per_thread = 256;
  t.max_grid_x = 1 << 21;  // the driver counts threads in 32 bits
  t.copy = CopyKind::staged;
  t.units = std::move(units);
  t.units.push_back(fma());
  return t;
}

// A compute unit per clock: 64 lanes, a quarter of them special, 128 bytes of shared memory. Data sheets,
// matrix and memory rates at 85%.
Rates rates(int cores, double gigahertz, double matrix_tflops, double memory_gbps) {
  constexpr double kLanes = 64, kSpecial = 16, kSharedBytes = 128;
  Rates r;
  r.cores = cores;
  r.matrix_tflops = matrix_tflops;
  r.scalar_tops = cores * kLanes * gigahertz * 1e-3;
  r.special_tops = cores * kSpecial * gigahertz * 1e-3;
  r.shared_tbps = cores * kSharedBytes * gigahertz * 1e-3;
  r.memory_gbps = memory_gbps;
  r.launch_us = 5;
  return r;
}
Target with(Rates rates, Target target) {
  target.rates = rates;
  return target;
}

// Rows per wave and keys per step: notes of the performance model in the README; 8 waves share each K/V tile.
// Two score heads keep an output each: fewer rows or keys, and queries in shared memory, where they are wide.
Target cdna(const std::string& backend, const char* arch, const char* title) {
  Target t = target(backend, arch, title, 64, {mfma()});
  t.schedules = {{kHalf, 8, 128, 256, 64, 8, true},
                 {kHalf, 136, 256, 256, 32, 8, true},
                 {kHalf, 8, 64, 256, 64, 8, true, 2},
                 {kHalf, 72, 128, 128, 32, 4, false, 2}};
  return t;
}
Target rdna(const std::string& backend, const char* arch, const char* title, MatrixUnit unit) {
  Target t = target(backend, arch, title, 32, {std::move(unit)});
  t.schedules = {{kHalf, 8, 128, 128, 32, 8, true},
                 {kHalf, 136, 256, 64, 16, 4},
                 {kHalf, 8, 64, 128, 32, 8, false, 2},
                 {kHalf, 72, 128, 128, 16, 8, false, 2},
                 {kHalf, 72, 128, 64, 16, 4, false, 2}};
  return t;
}

}  // namespace

std::vector<Target> targets(const std::string& backend) {
  return {
      with(rates(104, 1.7, 154, 1390), cdna(backend, "gfx90a", "AMD Instinct MI210, MI250X")),
      with(rates(304, 2.1, 1110, 4500), cdna(backend, "gfx942", "AMD Instinct MI300X, MI325X")),
      with(rates(80, 2.25, 19.6, 435), target(backend, "gfx1030", "AMD Radeon RX 6800, 6900", 32, {})),
      with(rates(96, 2.5, 104, 815), rdna(backend, "gfx1100", "AMD Radeon RX 7900", wmma_rdna3())),
      with(rates(64, 2.97, 166, 550), rdna(backend, "gfx1201", "AMD Radeon RX 9070", wmma_rdna4())),
  };
}

}  // namespace attnfuse::hip
