// wgmma: values of every operand form, and the order that accumulators and operands demand.
#include <bit>
#include <cmath>
#include <random>

#include "backends/cuda/emulator/test_kernel.h"

namespace attnfuse::cuda::testing {
namespace {

// a: 64 rows, b: `n` rows (or, by depth, `depth` rows of n columns); small integers.
struct Operands {
  std::vector<int> a, b;
  int n, depth;
};
Operands random_operands(std::mt19937& random, int n, int depth) {
  Operands result{std::vector<int>(std::size_t(64 * depth)), std::vector<int>(std::size_t(n * depth)), n,
                  depth};
  for (auto* side : {&result.a, &result.b})
    for (int& x : *side) x = int(random() % 9) - 4;
  return result;
}

Words packed(const std::vector<int>& values, bool is_bf16) {
  Words words(values.size() / 2);
  for (std::size_t n = 0; n < words.size(); ++n)
    words[n] = std::uint32_t(half_bits(values[2 * n], is_bf16)) |
               std::uint32_t(half_bits(values[2 * n + 1], is_bf16)) << 16;
  return words;
}

// Copies the matrices, contiguous by rows in global memory, into panels of 64 columns in shared memory.
std::string fill_tile(const std::string& name, const std::string& from, int rows, int columns) {
  return fmt::format(
      "for (int e = thread; e < {0} * {1}; e += 128) {2}[e % {1} / 64 * {0} * 64 + swizzled_element(e / {1}, "
      "e % {1} "
      "% 64)] = reinterpret_cast<const unsigned short*>({3})[e];\n",
      rows, columns, name, from);
}

int wrong_results(const Operands& in, const Words& got, int start) {
  int wrong = 0;
  for (int t = 0; t < 128; ++t)
    for (int r = 0; r < in.n / 2; ++r) {
      // PTX ISA: d fragment of m64nN.
      const int row = 16 * (t / 32) + (t % 32) / 4 + (r % 4 < 2 ? 0 : 8);
      const int col = r / 4 * 8 + t % 4 * 2 + (r & 1);
      int want = start;
      for (int k = 0; k < in.depth; ++k)
        want += in.a[std::size_t(row * in.depth + k)] * in.b[std::size_t(col * in.depth + k)];
      wrong += std::bit_cast<float>(got[std::size_t(t * in.n / 2 + r)]) != float(want);
    }
  return wrong;
}

}  // namespace

TEST_CASE("products of shared operands are right for several widths, types and depths") {
  if (!has_compiler()) return;
  constexpr unsigned kSeed = 5;
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (const int n : {8, 104, 256})
    for (const bool is_bf16 : {false, true}) {
      constexpr int kDepth = 128;  // two panels
      const Operands in = random_operands(random, n, kDepth);
      const std::string body =
          "unsigned short *a = reinterpret_cast<unsigned short*>(shared_memory), *b = a + 64 * 128;\n"
          "if (thread == 0) af_barrier_init(reinterpret_cast<af_u64*>(b + 256 * 128), "
          "1);\n__syncthreads();\n" +
          fill_tile("a", "args.p[0]", 64, kDepth) + fill_tile("b", "args.p[1]", n, kDepth) +
          fmt::format(R"(
  af_fence_async();
  __syncthreads();
  float d[{0}];
  for (int r = 0; r < {0}; ++r) d[r] = 7.0f;
  const af_u64 of_a = descriptor(a, 16, 1024), of_b = descriptor(b, 16, 1024);
  af_wgmma_fence();
  for (int k = 0; k < 8; ++k)
    af_wgmma_ss_{1}(d, of_a + k % 4 * 2 + k / 4 * (64 * 8), of_b + k % 4 * 2 + k / 4 * ({2} * 8), mode == 1 || k != 0);
  af_wgmma_commit();
  if (mode == 2) args.p[3][thread] = af_bits(d[0]);
  af_wgmma_wait<0>();
  for (int r = 0; r < {0}; ++r) args.p[2][thread * {0} + r] = af_bits(d[r]);
)",
                      n / 2, is_bf16 ? "bf16" : "f16", n);
      std::vector<Words> buffers = {packed(in.a, is_bf16), packed(in.b, is_bf16), Words(std::size_t(64 * n)),
                                    Words(128)};
      const int shared = (64 + 256) * 128 * 2 + 8;
      for (Experiment how : all_policies({128, shared})) {
        if (n != 8 && how.timing != Timing::late) continue;
        for (how.mode = 0; how.mode < 3; ++how.mode) {
          const auto result = execute(body, buffers, how);
          REQUIRE_MESSAGE(result.ok(), text_of(result));
          CHECK(wrong_results(in, (*result)[2], how.mode == 1 ? 7 : 0) == 0);
          if (how.mode == 2) CHECK(std::isnan(std::bit_cast<float>((*result)[3][0])));
        }
      }
    }
}

TEST_CASE("products of registers with rows that contract are right") {
  if (!has_compiler()) return;
  constexpr unsigned kSeed = 6;
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (const int n : {64, 96, 192}) {
    constexpr int kDepth = 32;
    Operands in = random_operands(random, n, kDepth);
    std::vector<int> by_depth(in.b.size());
    for (int k = 0; k < kDepth; ++k)
      for (int c = 0; c < n; ++c) by_depth[std::size_t(k * n + c)] = in.b[std::size_t(c * kDepth + k)];
    // Panels of 64 columns; the last one may be half full.
    const std::string body = "unsigned short* b = reinterpret_cast<unsigned short*>(shared_memory);\n" +
                             fill_tile("b", "args.p[1]", kDepth, n) +
                             fmt::format(R"(
  af_fence_async();
  __syncthreads();
  float d[{0}];
  af_wgmma_fence();
  for (int k = 0; k < 2; ++k) {{
    af_u32 a[4];
    for (int p = 0; p < 4; ++p) {{
      const int row = warp * 16 + lane / 4 + p % 2 * 8, col = k * 16 + lane % 4 * 2 + p / 2 * 8;
      a[p] = args.p[0][(row * {1} + col) / 2];
    }}
    af_wgmma_rs_bf16(d, a[0], a[1], a[2], a[3], descriptor(b, {1} * 128, 1024) + k * 128, k);
  }}
  af_wgmma_commit();
  af_wgmma_wait<0>();
  for (int r = 0; r < {0}; ++r) args.p[2][thread * {0} + r] = af_bits(d[r]);
)",
                                         n / 2, kDepth);
    for (const Timing timing : {Timing::late, Timing::early}) {
      const auto result =
          execute(body, {packed(in.a, true), packed(by_depth, true), Words(std::size_t(64 * n))},
                  {128, kDepth * 192 * 2, 0, Order::random, timing});
      REQUIRE_MESSAGE(result.ok(), text_of(result));
      CHECK(wrong_results(in, (*result)[2], 0) == 0);
    }
  }
}

TEST_CASE("products out of order with fences, waits and other threads are reported") {
  if (!has_compiler()) return;
  const std::string body = R"(
  unsigned short *a = reinterpret_cast<unsigned short*>(shared_memory), *b = a + 64 * 64;
  if (thread == 0) af_barrier_init(reinterpret_cast<af_u64*>(b + 8 * 64), 1);
  __syncthreads();
  for (int e = thread; e < 72 * 64; e += 128) a[e] = 0x3f80;
  if (mode != 1 || thread != 70) af_fence_async();
  __syncthreads();
  float d[4] = {1, 2, 3, 4}, other[4];
  const af_u64 of_a = descriptor(a, 16, 1024), of_b = descriptor(b, 16, 1024);
  if (mode != 2) af_wgmma_fence();
  if (mode == 3) { af_wgmma_ss_bf16(d, of_a + 8, of_b, 0); af_wgmma_commit(); af_wgmma_wait<0>(); return; }
  if (mode == 4) { af_wgmma_ss_bf16(d, of_a + 7, of_b, 0); af_wgmma_commit(); af_wgmma_wait<0>(); return; }
  if (mode == 5) { af_wgmma_ss_bf16(d, of_a & 0x3fffffffffffffffull, of_b, 0); af_wgmma_commit(); af_wgmma_wait<0>(); return; }
  if (mode == 6) { af_wgmma_ss_bf16(d, of_a + 64, of_b + 64 * 64, 0); af_wgmma_commit(); af_wgmma_wait<0>(); return; }
  if (mode == 7 && thread == 3) { af_wgmma_ss_bf16(d, of_b, of_b, 0); return; }
  af_wgmma_ss_bf16(d, of_a, of_b, 1);
  if (mode == 8) d[1] = 0;
  if (mode == 9 && thread < 32) b[16] = 1;
  if (mode == 10 && thread == 0) af_wgmma_commit();
  if (mode != 10) af_wgmma_commit();
  if (mode == 11) return;
  if (mode == 12 && thread == 5) return;
  af_wgmma_wait<0>();
  if (mode == 13) { af_wgmma_ss_bf16(other, of_a, of_b, 0); af_wgmma_commit(); af_wgmma_wait<0>(); }
  if (mode == 14) { af_wgmma_fence(); d[2] += 1; af_wgmma_ss_bf16(d, of_a, of_b, 1); af_wgmma_commit(); af_wgmma_wait<0>(); }
  if (mode == 15) { d[2] += 1; af_wgmma_fence(); af_wgmma_ss_bf16(d, of_a, of_b, 1); af_wgmma_commit(); af_wgmma_wait<0>(); }
  if (mode == 16) { if (thread != 9) af_wgmma_fence(); else return; af_wgmma_ss_bf16(d, of_a, of_b, 1); af_wgmma_commit(); af_wgmma_wait<0>(); }
)";
  struct Case {
    int mode;
    const char* code;
    const char* says;
  };
  constexpr Case kCases[] = {
      {0, "", ""},
      {1, "emulator.proxy", "which thread 70 wrote without a later af_fence_async"},
      {2, "emulator.wgmma-fence", "without an af_wgmma_fence"},
      {3, "emulator.descriptor", "does not start at a multiple of 1024 bytes"},
      {4, "emulator.descriptor", "operand a of a product of warpgroup 0 leaves its rows of 128 bytes"},
      {5, "emulator.descriptor", "does not say 128-byte swizzle"},
      {6, "emulator.fault", "reads past shared memory"},
      {7, "emulator.diverged", "of others is not product_shared_bf16 n 8 of thread 3"},
      {8, "emulator.accumulator", "wrote accumulator register 1 while a product was pending"},
      {9, "emulator.race", "which a product of warpgroup 0 may still read"},
      {10, "emulator.unfinished", "ends without waiting for its products"},
      {11, "emulator.unfinished", "ends without waiting for its products"},
      {12, "emulator.unfinished", "thread 5 ends"},
      {13, "emulator.wgmma-fence", "since its registers were last used"},
      {14, "emulator.wgmma-fence", "were written after the last af_wgmma_fence"},
      {15, "", ""},
      {16, "emulator.deadlock",
       "waits for product 1 of warpgroup 0, which 127 of 128 threads have asked for"},
  };
  for (const Case& c : kCases)
    for (Experiment how : all_policies({128, 72 * 64 * 2 + 8})) {
      CAPTURE(c.mode);
      how.mode = c.mode;
      const auto result = execute(body, {}, how);
      // With one order the write comes before the product.
      if (c.mode == 9 && result.ok()) continue;
      CHECK_MESSAGE(code_of(result) == c.code, text_of(result));
      CHECK_MESSAGE(text_of(result).find(c.says) != std::string::npos, text_of(result));
    }
}

}  // namespace attnfuse::cuda::testing
