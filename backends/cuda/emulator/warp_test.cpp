// Operations of a warp against the PTX ISA's words, and lanes that do not meet.
#include <bit>
#include <random>

#include "backends/cuda/emulator/test_kernel.h"

namespace attnfuse::cuda::testing {

TEST_CASE("lanes of a warp exchange values and votes") {
  if (!has_compiler()) return;
  const std::string body = R"(
  af_u32* out = args.p[0] + 6 * thread;
  out[0] = __shfl_xor_sync(0xffffffffu, thread, 5);
  out[1] = __shfl_sync(0xffffffffu, thread, 3);
  out[2] = __shfl_up_sync(0xffffffffu, thread, 2);
  out[3] = __shfl_down_sync(0xffffffffu, thread, 2);
  out[4] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  out[5] = af_bits(__shfl_xor_sync(0xffffffffu, float(thread), 1));
)";
  for (const Experiment& how : all_policies({64}))
    if (how.timing == Timing::late) {
      const auto result = execute(body, {Words(6 * 64)}, how);
      REQUIRE_MESSAGE(result.ok(), text_of(result));
      for (int t = 0; t < 64; ++t) {
        const std::uint32_t* out = &(*result)[0][std::size_t(6 * t)];
        CHECK(int(out[0]) == (t ^ 5));
        CHECK(int(out[1]) == t / 32 * 32 + 3);
        CHECK(int(out[2]) == (t % 32 < 2 ? t : t - 2));
        CHECK(int(out[3]) == (t % 32 > 29 ? t : t + 2));
        CHECK(out[4] == 0x49249249U);
        CHECK(out[5] == std::bit_cast<std::uint32_t>(float(t ^ 1)));
      }
    }
}

TEST_CASE("ldmatrix and stmatrix move 8x8 matrices between rows and lanes") {
  if (!has_compiler()) return;
  // Element e of the 32 rows holds the number e; rows are handed in mixed order.
  const std::string body = R"(
  unsigned short* tile = reinterpret_cast<unsigned short*>(shared_memory);
  for (int e = 0; e < 8; ++e) tile[lane * 8 + e] = (unsigned short)(lane * 8 + e);
  __syncwarp();
  af_u32* out = args.p[0] + 14 * thread;
  const void* row = tile + (lane ^ 3) * 8;
  af_ldmatrix(out[0], out[1], out[2], out[3], row);
  af_ldmatrix_transposed(out[4], out[5], out[6], out[7], row);
  af_ldmatrix_transposed(out[8], out[9], row);
  __syncwarp();
  af_stmatrix(tile + (lane ^ 9) * 8, out[0], out[1], out[2], out[3]);
  __syncwarp();
  for (int n = 0; n < 4; ++n) out[10 + n] = reinterpret_cast<af_u32*>(tile + lane * 8)[n];
)";

  const auto result = execute(body, {Words(14 * 32)}, {32, 512});
  REQUIRE_MESSAGE(result.ok(), text_of(result));
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint32_t* out = &(*result)[0][std::size_t(14 * lane)];
    for (int m = 0; m < 4; ++m) {
      const int row = (m * 8 + lane / 4) ^ 3, col = lane % 4 * 2;
      CHECK(out[m] == std::uint32_t((row * 8 + col) | (row * 8 + col + 1) << 16));
      const int first = (m * 8 + col) ^ 3, second = (m * 8 + col + 1) ^ 3;
      const auto transposed = std::uint32_t((first * 8 + lane / 4) | (second * 8 + lane / 4) << 16);
      CHECK(out[4 + m] == transposed);
      if (m < 2) CHECK(out[8 + m] == transposed);
    }
    const int from = (lane ^ 9) ^ 3;  // row that was loaded for this place
    for (int n = 0; n < 4; ++n)
      CHECK(out[10 + n] == std::uint32_t((from * 8 + 2 * n) | (from * 8 + 2 * n + 1) << 16));
  }
}

TEST_CASE("mma.sync multiplies 16x16 by 16x8") {
  if (!has_compiler()) return;
  constexpr unsigned kSeed = 11;
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (const bool is_bf16 : {false, true}) {
    const std::string body = fmt::format(R"(
  float* d = reinterpret_cast<float*>(args.p[2]) + 4 * lane;
  const af_u32 *a = args.p[0] + 4 * lane, *b = args.p[1] + 2 * lane;
  af_mma_{}(d, a[0], a[1], a[2], a[3], b[0], b[1]);
)",
                                         is_bf16 ? "bf16" : "f16");
    int a[16][16], b[16][8];
    for (auto& row : a)
      for (int& x : row) x = int(random() % 17) - 8;
    for (auto& row : b)
      for (int& x : row) x = int(random() % 17) - 8;
    const auto pair = [&](int low, int high) {
      return std::uint32_t(half_bits(low, is_bf16)) | std::uint32_t(half_bits(high, is_bf16)) << 16;
    };
    std::vector<Words> buffers = {Words(128), Words(64), Words(128, std::bit_cast<std::uint32_t>(3.0F))};
    for (int lane = 0; lane < 32; ++lane) {
      const int group = lane >> 2, col = lane % 4 * 2;
      for (int i = 0; i < 8; i += 2) {
        const int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8, k = col + (i >= 4 ? 8 : 0);
        buffers[0][std::size_t(lane * 4 + i / 2)] = pair(a[row][k], a[row][k + 1]);
      }
      for (int i = 0; i < 4; i += 2) {
        const int k = col + (i >= 2 ? 8 : 0);
        buffers[1][std::size_t(lane * 2 + i / 2)] = pair(b[k][group], b[k + 1][group]);
      }
    }
    const auto result = execute(body, buffers, {});
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    int wrong = 0;
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i < 2 ? 0 : 8), col = lane % 4 * 2 + i % 2;
        float want = 3;
        for (int k = 0; k < 16; ++k) want += float(a[row][k] * b[k][col]);
        wrong += std::bit_cast<float>((*result)[2][std::size_t(lane * 4 + i)]) != want;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("lanes that meet at different operations, or not at all, are reported") {
  if (!has_compiler()) return;
  const std::string body = R"(
  if (mode == 0) { if (lane < 10) __syncwarp(); else args.p[0][lane] = __ballot_sync(0xffffffffu, 1); }
  if (mode == 1 && lane != 7) __syncwarp();
)";
  const auto different = execute(body, {Words(32)}, {32, 0, 0});
  CHECK(
      text_of(different) ==
      "error[emulator.diverged]: workgroup 0,0,0: warp 0: thread 0 is at sync_warp, thread 10 is at ballot");
  const auto ended = execute(body, {Words(32)}, {32, 0, 1});
  CHECK(text_of(ended) ==
        "error[emulator.diverged]: workgroup 0,0,0: warp 0: thread 0 is at sync_warp, thread 7 has ended");
}

TEST_CASE("asynchronous copies land between issue and wait, and zeros outside") {
  if (!has_compiler()) return;
  // The value before the wait, and after it.
  const std::string body = R"(
  af_u32* tile = reinterpret_cast<af_u32*>(shared_memory);
  af_copy_async(tile + 4 * lane, args.p[0] + 4 * lane + (mode == 1 ? 1 : 0) + (mode == 2 ? 4 : 0), lane != 5);
  af_copy_commit();
  args.p[1][2 * lane] = tile[4 * lane + 1];
  if (mode != 3) af_copy_wait();
  args.p[1][2 * lane + 1] = tile[4 * lane + 1];
)";
  Words values(128);
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::uint32_t(n + 1);
  for (const Experiment& how : all_policies({32, 512})) {
    const auto result = execute(body, {values, Words(64)}, how);
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      const std::uint32_t wanted = lane == 5 ? 0 : 4 * lane + 2, before = (*result)[1][2 * lane];
      CHECK((*result)[1][2 * lane + 1] == wanted);
      if (how.timing == Timing::late) CHECK(before == 0xffffffffU);
      if (how.timing == Timing::early) CHECK(before == wanted);
    }
  }
  CHECK(code_of(execute(body, {values, Words(64)}, {32, 512, 1})) == "emulator.alignment");
  CHECK(code_of(execute(body, {values, Words(64)}, {32, 512, 2})) == "emulator.fault");
  CHECK(code_of(execute(body, {values, Words(64)}, {32, 512, 3})) == "emulator.unfinished");
  CHECK(code_of(execute(body, {values, Words(64)}, {32, 400})) == "emulator.fault");
}

TEST_CASE("a thread that leaves shared memory is reported") {
  if (!has_compiler()) return;
  const std::string body = R"(
  af_u32* tile = reinterpret_cast<af_u32*>(shared_memory);
  tile[lane + mode] = lane;
  args.p[0][lane] = tile[lane + mode];
)";
  CHECK(execute(body, {Words(32)}, {32, 128}).ok());
  CHECK(code_of(execute(body, {Words(32)}, {32, 128, 4})) == "emulator.fault");     // just past the end
  CHECK(code_of(execute(body, {Words(32)}, {32, 128, 4000})) == "emulator.fault");  // on the next page
  CHECK(code_of(execute(body, {Words(32)}, {32, 1 << 20})) == "device.failed");
}

}  // namespace attnfuse::cuda::testing
