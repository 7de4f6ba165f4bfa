#include "backends/cuda/targets.h"

namespace attnfuse::cuda {
namespace {

constexpr TileAxis kRow = TileAxis::row, kCol = TileAxis::col;

// mma.sync.m16n8k16: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
MatrixUnit mma_sync() {
  MatrixUnit unit;
  unit.leaf = "mma.sync";
  unit.operands = {DType::f16, DType::bf16};
  unit.m = 16;
  unit.n = 8;
  unit.k = 16;
  unit.a = {{{2, kCol, 1}, {2, kRow, 8}, {2, kCol, 8}}, {{4, kCol, 2}, {8, kRow, 1}}, {}};
  unit.b = {{{2, kCol, 1}, {2, kCol, 8}}, {{4, kCol, 2}, {8, kRow, 1}}, {}};
  unit.accumulator = {{{2, kCol, 1}, {2, kRow, 8}}, {{4, kCol, 2}, {8, kRow, 1}}, {}};
  unit.accumulator_is_operand = true;
  return unit;
}

MatrixUnit fma() {
  MatrixUnit unit;
  unit.leaf = "fma";
  unit.operands = {DType::f16, DType::bf16, DType::f32};
  return unit;
}

// wgmma.mma_async.m64nNk16: PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16". One accumulator step
// is 8 columns; the first operand in registers is the accumulator of the product before, packed.
MatrixUnit wgmma() {
  MatrixUnit unit;
  unit.leaf = "wgmma";
  unit.operands = {DType::f16, DType::bf16};
  unit.m = 64;
  unit.n = 8;
  unit.k = 16;
  unit.accumulator = {{{2, kCol, 1}, {2, kRow, 8}}, {{4, kCol, 2}, {8, kRow, 1}}, {{4, kRow, 16}}};
  unit.accumulator_is_operand = true;
  return unit;
}

// Tensor copies in bulk and products of four warps. Head dims, groups of 64 rows, keys a step, query slots,
// key and value slots, registers of a consumer and of a producer thread, whether groups take turns, quarters
// of the exponentials beside the output product, longest calls, whether the diagonal is trimmed, speed beside
// the fastest.
void add_pipeline(Target& t) {
  const std::vector<DType> half = {DType::f16, DType::bf16};
  t.pipeline = PipelineUnits{"hopper", true, wgmma()};
  t.pipelines = {
      {half, 8, 64, 2, 128, 2, 2, 224, 56, true, 0, 1, 1024, true},
      {half, 8, 64, 3, 128, 2, 2, 160, 32, true, 0, 1},
      {half, 8, 64, 2, 128, 2, 2, 224, 56, true, 0, 1, PipelineRow::kAnyLength, false, 0.89},
      {half, 72, 128, 2, 128, 2, 2, 224, 56, true, 2, 2, 4096, true},
      {half, 72, 128, 2, 128, 2, 2, 224, 56, true, 2, 2},
      {half, 72, 128, 2, 128, 2, 2, 232, 40, true, 2, 2},
      {half, 136, 192, 2, 128, 1, 2, 224, 56, true, 4, 4},  // values of up to 128
      {half, 136, 192, 2, 112, 1, 2, 224, 56, true, 4, 4},
      {half, 136, 192, 2, 112, 1, 2, 232, 40, true, 4, 4},
      {half, 200, 256, 2, 80, 1, 2, 232, 40, true, 4, 4},
      {half, 200, 256, 2, 80, 1, 2, 224, 56, true, 4, 4},
  };
}

Target target(const char* arch, const char* title, int shared_kib, int compute_units) {
  Target t;
  t.name = std::string("cuda:") + arch;
  t.backend = "cuda";
  t.arch = arch;
  t.title = title;
  t.warp_size = 32;
  t.max_threads = 1024;
  t.shared_bytes = shared_kib * 1024;
  t.registers_per_thread = 255;
  t.max_grid_x = 2147483647;
  t.compute_units = compute_units;
  t.copy = CopyKind::async;
  t.async_copy_min_bytes = 16;
  t.units = {mma_sync(), fma()};
  const std::vector<DType> half = {DType::f16, DType::bf16};
  // 32 rows a warp halve the shared-memory reads per product; from head_dim 136 on the output no longer fits
  // beside them.
  t.schedules = {
      {half, 8, 64, 128, 128, 4, false},
      {half, 72, 128, 128, 64, 4, false},
      {half, 136, 192, 64, 64, 4, false},
      {half, 200, 256, 64, 64, 4, false},
  };
  return t;
}

// Lanes, special units and shared-memory bytes of a multiprocessor per clock.
Rates rates(int cores, double gigahertz, int lanes, double matrix_tflops, double memory_gbps) {
  constexpr double kSpecial = 16, kSharedBytes = 128;
  Rates r;
  r.cores = cores;
  r.matrix_tflops = matrix_tflops;
  r.scalar_tops = cores * lanes * gigahertz * 1e-3;
  r.special_tops = cores * kSpecial * gigahertz * 1e-3;
  r.shared_tbps = cores * kSharedBytes * gigahertz * 1e-3;
  r.memory_gbps = memory_gbps;
  r.launch_us = 3;
  return r;
}

// An H200 under load: products of 8192 x 8192, a copy, plain attention by each schedule.
Rates h200() {
  Rates r = rates(132, 1.7, 128, 694, 4272);
  r.launch_us = 2.5;
  r.portable_share = 0.42;  // mma.sync does not reach the matrix rate there
  r.pipeline_share = 0.98;
  r.measured = true;
  return r;
}

Target with(Rates rates, Target target) {
  target.rates = rates;
  return target;
}

}  // namespace

// Rates that are not measured: data sheets, matrix and memory rates at 85%.
std::vector<Target> targets() {
  std::vector<Target> all = {
      with(rates(108, 1.41, 64, 265, 1730), target("sm_80", "NVIDIA A100", 163, 108)),
      with(rates(58, 2.04, 128, 103, 255), target("sm_89", "NVIDIA L4, L40, RTX 4090", 99, 58)),  // L4
      with(h200(), target("sm_90a", "NVIDIA H100, H200", 227, 132)),
      with(rates(148, 1.85, 128, 1910, 6800), target("sm_100a", "NVIDIA B200", 227, 148)),
      with(rates(170, 2.41, 128, 178, 1520), target("sm_120a", "NVIDIA RTX 5090", 99, 170)),
  };
  add_pipeline(all[2]);
  return all;
}

}  // namespace attnfuse::cuda
