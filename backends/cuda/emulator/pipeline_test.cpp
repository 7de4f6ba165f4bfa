// A small kernel of the kind the emulator is for - a producer thread, slots handed round by mbarriers,
// products in the background, a bulk store at the end - and what becomes of it when one thing is forgotten.
#include <bit>
#include <random>

#include "backends/cuda/emulator/test_kernel.h"

namespace attnfuse::cuda::testing {
namespace {

// d = sum over tiles t of x[0..64) x[64 t ..)^T, x: 256 rows of 64 bf16; as bf16 to y.
constexpr int kTiles = 4, kRows = 64 * kTiles, kColumns = 64;

enum Mode : std::uint8_t {
  right,
  refills_too_early,
  expects_too_little,
  reads_before_full,
  releases_before_wait,
  never_releases,
  counts_one_more,
  forgets_proxy_fence,
  stores_before_meeting,
  ends_before_read,
  misses_product_wait,
  kModes,
};

const char* const kPipeline = R"(
  unsigned short *a = reinterpret_cast<unsigned short*>(shared_memory), *b = a + 4096;
  af_u64 *full = reinterpret_cast<af_u64*>(shared_memory + 3 * 8192), *empty = full + 2, *a_full = full + 4;
  if (thread == 0) {
    for (int slot = 0; slot < 2; ++slot) {
      af_barrier_init(full + slot, 1);
      af_barrier_init(empty + slot, mode == 6 ? 5 : 4);
    }
    af_barrier_init(a_full, 1);
    af_barrier_init_fence();
  }
  __syncthreads();
  if (warp >= 4) {
    af_registers_dec<24>();
    if (thread == 128) {
      af_expect(a_full, 8192);
      af_bulk_load(a, &args.map[0], a_full, 0, 0, 0, 0, hint);
      for (int t = 0; t < 4; ++t) {
        const int slot = t % 2;
        if (mode != 1) af_wait(empty + slot, (t / 2 & 1) ^ 1);
        af_expect(full + slot, mode == 2 ? 4096 : 8192);
        af_bulk_load(b + slot * 4096, &args.map[0], full + slot, 0, 64 * t, 0, 0, hint);
      }
    }
  } else {
    float d[32];
    af_wait(a_full, 0);
    for (int t = 0; t < 4; ++t) {
      const int slot = t % 2;
      if (mode != 3) af_wait(full + slot, t / 2 & 1);
      const af_u64 of_a = descriptor(a, 16, 1024), of_b = descriptor(b + slot * 4096, 16, 1024);
      af_wgmma_fence();
      for (int k = 0; k < 4; ++k) af_wgmma_ss_bf16(d, of_a + 2 * k, of_b + 2 * k, t != 0 || k != 0);
      af_wgmma_commit();
      if (mode == 4 && lane == 0) af_arrive(empty + slot);
      if (mode != 10 || t != 3) af_wgmma_wait<0>();
      if (mode != 4 && mode != 5 && lane == 0) af_arrive(empty + slot);
    }
    af_named_sync(1, 128);
    for (int r = 0; r < 32; r += 2) {
      const int row = warp * 16 + lane / 4 + r / 2 % 2 * 8, col = r / 4 * 8 + lane % 4 * 2;
      *reinterpret_cast<af_u32*>(a + swizzled_element(row, col)) = af_pack_bf16(d[r], d[r + 1]);
    }
    if (mode == 10) af_wgmma_wait<0>();
    if (mode != 7) af_fence_async();
    if (mode != 8) af_named_sync(2, 128);
    if (thread == 0) {
      af_bulk_store(&args.map[1], a, 0, 0, 0, 0, hint);
      af_bulk_commit();
      if (mode != 9) af_bulk_wait_read<0>();
    }
  }
)";

TensorMap map_of_rows(int rows) {
  TensorMap map;
  map.extents = {kColumns, rows, 1, 1};
  map.strides_bytes = {kColumns * 2, kColumns * rows * 2, kColumns * rows * 2};
  map.box_columns = 64;
  map.box_rows = 64;
  return map;
}

}  // namespace

TEST_CASE("a pipeline of roles is right under every policy, and each thing it forgets is noticed") {
  if (!has_compiler()) return;
  constexpr unsigned kSeed = 3;
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  std::vector<int> x(kRows * kColumns);
  for (int& value : x) value = int(random() % 3) - 1;
  Words packed(x.size() / 2);
  for (std::size_t n = 0; n < packed.size(); ++n)
    packed[n] = std::uint32_t(half_bits(x[2 * n], true)) | std::uint32_t(half_bits(x[2 * n + 1], true)) << 16;
  const auto is_right = [&](const Words& y) {
    for (int row = 0; row < 64; ++row)
      for (int col = 0; col < 64; ++col) {
        int want = 0;  // at most 256 in size: exact in bf16
        for (int t = 0; t < kTiles; ++t)
          for (int k = 0; k < kColumns; ++k)
            want += x[std::size_t(row * kColumns + k)] * x[std::size_t((64 * t + col) * kColumns + k)];
        const int at = row * 64 + col;
        if (std::uint16_t(y[std::size_t(at / 2)] >> 16 * (at % 2)) != half_bits(want, true)) return false;
      }
    return true;
  };
  const std::vector<MapOf> maps = {{0, map_of_rows(kRows)}, {1, map_of_rows(64)}};
  const auto run = [&](const Experiment& how) {
    return execute(kPipeline, {packed, Words(64 * 64 / 2)}, how, maps);
  };
  const int shared = 3 * 8192 + 40;
  for (int mode = 0; mode < kModes; ++mode) {
    int noticed = 0;
    std::string seen;
    for (const Experiment& how : all_policies({256, shared, mode})) {
      const auto result = run(how);
      const bool fine = result.ok() && is_right((*result)[1]);
      noticed += fine ? 0 : 1;
      seen += fine ? "fine\n" : result.ok() ? "wrong values\n" : text_of(result) + "\n";
    }
    CAPTURE(mode);
    CAPTURE(seen);
    if (mode == right)
      CHECK(noticed == 0);
    else
      CHECK(noticed > 0);
    // What does not depend on luck.
    for (const int sure : {expects_too_little, never_releases, counts_one_more, forgets_proxy_fence,
                           ends_before_read, misses_product_wait})
      if (mode == sure) CHECK(noticed == 9);
  }
}

}  // namespace attnfuse::cuda::testing
