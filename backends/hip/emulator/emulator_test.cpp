#include "backends/hip/emulator/emulator.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "backends/hip/targets.h"

namespace attnfuse::hip {
namespace {

using emulator::Order;

constexpr Order kOrders[] = {Order::forward, Order::reverse, Order::random};

Target find_target(const std::string& arch) {
  for (const Target& target : targets("hip-cpu"))
    if (target.arch == arch) return target;
  FAIL("no target");
  return {};
}

// Kernels take pointers to their buffers, in order.
struct Experiment {
  std::string arch = "gfx942";
  int threads = 64;
  Order order = Order::forward;
  std::uint32_t workgroups = 1;
};

using Words = std::vector<std::uint32_t>;

bool has_compiler() {
  static const bool found = [] {
    const Result<Binary> built =
        compile_for_host("extern \"C\" __global__ void k(const int) {}", "k", find_target("gfx942"));
    const bool missing = !built && built.errors()[0].code == "toolkit.missing";
    if (missing) MESSAGE("SKIPPED: " << render(built.errors()));
    return !missing;
  }();
  return found;
}

// Runs `source`'s kernel `k(const Args)` on buffers of 32-bit words and returns them.
Result<std::vector<Words>> execute(const std::string& source, std::vector<Words> buffers,
                                   const Experiment& how) {
  const Target target = find_target(how.arch);
  static std::map<std::string, Binary> compiled;  // the same text runs in several orders
  if (!compiled.contains(source)) {
    const Result<Binary> built = compile_for_host(source, "k", target);
    if (!built) return built.errors();
    compiled.emplace(source, *built);
  }
  Binary binary = compiled.at(source);
  binary.target = target.name;
  const std::shared_ptr<Device> device = make_emulator({target}, {how.order, {}, 7});
  const Result<std::shared_ptr<Module>> module = device->load(binary);
  if (!module) return module.errors();
  std::vector<std::shared_ptr<Buffer>> memory;
  std::vector<std::uint64_t> params;
  for (const Words& words : buffers) {
    const Result<std::shared_ptr<Buffer>> buffer = device->allocate(words.size() * 4);
    if (!buffer) return buffer.errors();
    memory.push_back(*buffer);
    params.push_back((*buffer)->address());
    if (Status status = device->upload(**buffer, 0, std::as_bytes(std::span(words))); !status)
      return status.errors();
  }
  const Launch launch{{how.workgroups, 1, 1}, how.threads, 0};
  if (Status status = device->launch(**module, launch, std::as_bytes(std::span(params))); !status)
    return status.errors();
  for (std::size_t n = 0; n < buffers.size(); ++n)
    if (Status status = device->download(*memory[n], 0, std::as_writable_bytes(std::span(buffers[n])));
        !status)
      return status.errors();
  return buffers;
}

std::string code_of(const Result<std::vector<Words>>& result) {
  return result ? "" : result.errors()[0].code;
}

// Each thread writes its number to shared memory and reads a thread of the other wave.
std::string neighbours(bool with_barrier) {
  return fmt::format(R"(
struct Args {{ unsigned* out; }};
extern "C" __global__ void k(const Args args) {{
  __shared__ unsigned seen[128];
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  seen[t] = t;
  {}
  args.out[t] = seen[127 - t];
}})",
                     with_barrier ? "__builtin_amdgcn_s_barrier();" : "");
}

}  // namespace

TEST_CASE("shared memory carries values between waves when a barrier stands between") {
  if (!has_compiler()) return;
  for (const char* arch : {"gfx942", "gfx1100"})
    for (Order order : kOrders) {
      const auto result = execute(neighbours(true), {Words(128)}, {arch, 128, order});
      REQUIRE_MESSAGE(result.ok(), render(result.errors()));
      for (std::uint32_t t = 0; t < 128; ++t) CHECK((*result)[0][t] == 127 - t);
    }
}

TEST_CASE("without the barrier every order of waves reads memory that was never written") {
  if (!has_compiler()) return;
  for (Order order : kOrders) {
    const auto result = execute(neighbours(false), {Words(128)}, {"gfx942", 128, order});
    REQUIRE(result.ok());
    CHECK(std::count((*result)[0].begin(), (*result)[0].end(), 0xffffffffU) > 0);
  }
}

TEST_CASE("a race that one order hides shows in another") {
  if (!has_compiler()) return;
  // Wave 0 writes, wave 1 reads: right by luck when wave 0 runs first.
  const std::string source = R"(
struct Args { unsigned* out; };
extern "C" __global__ void k(const Args args) {
  __shared__ unsigned value[64];
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  if (t < 64) value[t] = t + 1;
  if (t >= 64) args.out[t - 64] = value[t - 64];
})";
  const auto right = [&](Order order) {
    const auto result = execute(source, {Words(64)}, {"gfx942", 128, order});
    REQUIRE(result.ok());
    return (*result)[0][5] == 6;
  };
  CHECK(right(Order::forward));
  CHECK(!right(Order::reverse));
}

TEST_CASE("lanes exchange values as the instructions say") {
  if (!has_compiler()) return;
  const std::string source = R"(
struct Args { int* out; };
extern "C" __global__ void k(const Args args) {
  const int t = __builtin_amdgcn_workitem_id_x();
  int* out = args.out + 6 * t;
  out[0] = __builtin_amdgcn_ds_bpermute((t ^ 5) << 2, t);
  out[1] = __builtin_amdgcn_ds_swizzle(t, (8 << 10) | 0x1f);
  out[2] = __builtin_amdgcn_mov_dpp(t, 0xb1, 0xf, 0xf, true);  // 1 0 3 2
  out[3] = __builtin_amdgcn_permlanex16(t, t, 0x76543210, 0xfedcba98, false, false);
  out[4] = __builtin_amdgcn_readfirstlane(t + 100);
  out[5] = __builtin_amdgcn_workgroup_id_x();
})";
  for (const char* arch : {"gfx942", "gfx1100"}) {
    const int wave = find_target(arch).warp_size;
    const auto result = execute(source, {Words(6 * 64)}, {arch, wave, Order::random});
    REQUIRE_MESSAGE(result.ok(), render(result.errors()));
    for (int t = 0; t < wave; ++t) {
      const std::uint32_t* out = &(*result)[0][std::size_t(6 * t)];
      CHECK(int(out[0]) == (t ^ 5));
      CHECK(int(out[1]) == (t ^ 8));
      CHECK(int(out[2]) == (t ^ 1));
      CHECK(int(out[3]) == (t ^ 16));
      CHECK(int(out[4]) == 100);
      CHECK(int(out[5]) == 0);
    }
  }
}

TEST_CASE("lanes that meet at different operations are reported") {
  if (!has_compiler()) return;
  const auto result = execute(R"(
struct Args { int* out; };
extern "C" __global__ void k(const Args args) {
  const int t = __builtin_amdgcn_workitem_id_x();
  if (t < 10) args.out[t] = __builtin_amdgcn_readfirstlane(t);
})",
                              {Words(64)}, {});
  REQUIRE(!result.ok());
  CHECK(render(result.errors()) ==
        "error[emulator.diverged]: workgroup 0,0,0: wave 0: lane 0 is at first_lane, lane 10 at the end");
}

TEST_CASE("reading past a buffer, writing before it and exhausting the stack are reported") {
  if (!has_compiler()) return;
  const auto touching = [](const std::string& what) {
    return "struct Args { int* out; };\nextern \"C\" __global__ void k(const Args args) { const int t = "
           "__builtin_amdgcn_workitem_id_x(); " +
           what + " }";
  };
  const auto past = execute(touching("args.out[t] = args.out[t + 1];"), {Words(64)}, {});
  REQUIRE(code_of(past) == "emulator.fault");
  CHECK(past.errors()[0].message.find("thread 63 touches") != std::string::npos);
  CHECK(past.errors()[0].message.find("0 bytes past the end of a buffer of 256 bytes") != std::string::npos);
  CHECK(code_of(execute(touching("args.out[t - 1] = 3;"), {Words(64)}, {})) == "emulator.overrun");
  CHECK(code_of(execute(touching("args.out[t - 4000] = 3;"), {Words(64)}, {})) == "emulator.fault");
  CHECK(code_of(execute(touching("volatile char big[1 << 20]; big[t] = 1; args.out[t] = big[t + 1];"),
                        {Words(64)}, {})) == "emulator.fault");
  // It still works afterwards.
  CHECK(execute(touching("args.out[t] = t;"), {Words(64)}, {}).ok());
}

TEST_CASE("touching memory past the shared variables is reported") {
  if (!has_compiler()) return;
  const auto result = execute(R"(
struct Args { int* out; };
extern "C" __global__ void k(const Args args) {
  __shared__ int all[1024];
  const int t = __builtin_amdgcn_workitem_id_x();
  all[t] = t;
  args.out[t] = all[1024 + t + args.out[t]];
})",
                              {Words(64)}, {});
  CHECK(code_of(result) == "emulator.fault");
}

TEST_CASE("a source that clang rejects is reported with its message") {
  if (!has_compiler()) return;
  const Result<Binary> result =
      compile_for_host("extern \"C\" __global__ void k(const int x) { y = x; }", "k", find_target("gfx942"));
  REQUIRE(!result.ok());
  CHECK(result.errors()[0].code == "assemble.failed");
  CHECK(result.errors()[0].message.find("kernel.hip:1") != std::string::npos);
}

namespace {

// The builtin, its operand type and how many elements a lane holds.
struct Matrix {
  const char* arch;
  const char* call;
  const char* element;
  int mn, k, elements, results;
};

constexpr Matrix kMatrices[] = {
    {"gfx942", "__builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0)", "_Float16", 32, 8, 4, 16},
    {"gfx942", "__builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0)", "short", 32, 8, 4, 16},
    {"gfx90a", "__builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)", "_Float16", 16, 16, 4, 4},
    {"gfx90a", "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)", "short", 16, 16, 4, 4},
    {"gfx1100", "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)", "_Float16", 16, 16, 16, 8},
    {"gfx1100", "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)", "short", 16, 16, 16, 8},
    {"gfx1201", "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(a, b, c)", "_Float16", 16, 16, 8, 8},
    {"gfx1201", "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(a, b, c)", "short", 16, 16, 8, 8},
};

std::string matrix_kernel(const Matrix& m) {
  return fmt::format(R"(
typedef {0} operand __attribute__((ext_vector_type({1})));
typedef float accumulator __attribute__((ext_vector_type({2})));
struct Args {{ const operand* a; const operand* b; float* d; }};
extern "C" __global__ void k(const Args args) {{
  const int t = __builtin_amdgcn_workitem_id_x();
  operand a = args.a[t], b = args.b[t];
  accumulator c;
  for (int r = 0; r < {2}; ++r) c[r] = args.d[t * {2} + r];
  c = {3};
  for (int r = 0; r < {2}; ++r) args.d[t * {2} + r] = c[r];
}})",
                     m.element, m.elements, m.results, m.call);
}

// Small integers are exact in both formats.
std::uint16_t bits_of(int value, bool is_bf16) {
  if (is_bf16) return std::uint16_t(std::bit_cast<std::uint32_t>(float(value)) >> 16);
  if (value == 0) return 0;
  const int magnitude = std::abs(value), exponent = int(std::bit_width(unsigned(magnitude))) - 1;
  const int mantissa = (magnitude << (10 - exponent)) & 1023;
  return std::uint16_t((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 | mantissa);
}

}  // namespace

// Place formulas, once more and by hand: element e of lane l holds k = ... of row l % mn; register r is row
// ...
TEST_CASE("matrix operations multiply") {
  if (!has_compiler()) return;
  constexpr unsigned kSeed = 20;
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (const Matrix& m : kMatrices) {
    CAPTURE(m.call);
    const int lanes = find_target(m.arch).warp_size;
    const bool is_bf16 = std::string(m.element) == "short", whole_rows = m.elements == m.k;
    std::vector<int> a(std::size_t(m.mn * m.k)), b(a.size());
    for (auto* side : {&a, &b})
      for (int& x : *side) x = int(random() % 17) - 8;
    std::vector<std::vector<std::uint16_t>> halves(
        2, std::vector<std::uint16_t>(std::size_t(lanes * m.elements)));
    for (int side = 0; side < 2; ++side)
      for (int lane = 0; lane < lanes; ++lane)
        for (int e = 0; e < m.elements; ++e) {
          const int k = whole_rows ? e : lane / m.mn * m.elements + e;
          halves[std::size_t(side)][std::size_t(lane * m.elements + e)] =
              bits_of((side == 0 ? a : b)[std::size_t(lane % m.mn * m.k + k)], is_bf16);
        }
    std::vector<Words> buffers;
    for (const auto& side : halves) {
      buffers.emplace_back(side.size() / 2);
      std::memcpy(buffers.back().data(), side.data(), side.size() * 2);
    }
    buffers.emplace_back(std::size_t(lanes * m.results), std::bit_cast<std::uint32_t>(3.0F));
    const auto result = execute(matrix_kernel(m), buffers, {m.arch, lanes, Order::random});
    REQUIRE_MESSAGE(result.ok(), render(result.errors()));
    int wrong = 0;
    for (int lane = 0; lane < lanes; ++lane)
      for (int r = 0; r < m.results; ++r) {
        const int group = lane / m.mn, n = lane % m.mn;
        const int row = m.mn == 32   ? 8 * (r / 4) + 4 * group + r % 4
                        : whole_rows ? 2 * r + group
                                     : m.results * group + r;
        float want = 3;
        for (int k = 0; k < m.k; ++k)
          want += float(a[std::size_t(row * m.k + k)] * b[std::size_t(n * m.k + k)]);
        wrong += std::bit_cast<float>((*result)[2][std::size_t(lane * m.results + r)]) != want;
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("gfx1100 operands that are not repeated in the upper half are reported") {
  if (!has_compiler()) return;
  const Matrix& m = kMatrices[4];
  std::vector<Words> buffers = {Words(32 * 8), Words(32 * 8), Words(32 * 8)};
  buffers[1][16 * 8] = 0x3c00;
  const auto result = execute(matrix_kernel(m), buffers, {m.arch, 32, Order::forward});
  REQUIRE(code_of(result) == "emulator.operand");
  CHECK(result.errors()[0].message ==
        "workgroup 0,0,0: wave 0: wmma_f16: lane 16 does not repeat element 0 of operand b of lane 0");
}

TEST_CASE("gfx90a flushes denormal operands, gfx942 does not") {
  if (!has_compiler()) return;
  for (const char* arch : {"gfx90a", "gfx942"}) {
    std::vector<Words> buffers = {Words(64 * 2, 0x00010001), Words(64 * 2, 0x3c003c00), Words(64 * 16)};
    const auto result = execute(matrix_kernel(kMatrices[0]), buffers, {arch, 64, Order::forward});
    REQUIRE(result.ok());
    CHECK(std::bit_cast<float>((*result)[2][0]) ==
          (std::string(arch) == "gfx90a" ? 0.0F : 8 * std::ldexp(1.0F, -24)));
  }
}

}  // namespace attnfuse::hip
