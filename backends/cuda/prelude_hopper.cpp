#include <fmt/format.h>

#include <set>

#include "backends/cuda/prelude.h"

namespace attnfuse::cuda {
namespace {

constexpr std::string_view kHopper =
    R"(struct alignas(64) af_tensor_map { af_u64 words[16]; };  // CUtensorMap
AF_FN af_u32 af_shared(const void* p) { return af_u32(__cvta_generic_to_shared(p)); }
AF_FN int af_uniform(int x) { return __shfl_sync(0xffffffffu, x, 0); }
// x, as a value that the compiler cannot compute ahead.
AF_FN int af_opaque(int x) { asm volatile("" : "+r"(x)); return x; }
// Second-level cache: what is read once goes first, what others read again goes last.
constexpr af_u64 af_evict_first = 0x12F0000000000000ull, af_evict_last = 0x14F0000000000000ull;

// Barriers in shared memory. A phase ends when all arrivals and all announced bytes have come.
AF_FN void af_barrier_init(af_u64* barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(af_shared(barrier)), "r"(arrivals) : "memory"); }
AF_FN void af_barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
AF_FN void af_arrive(af_u64* barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(af_shared(barrier)) : "memory"); }
AF_FN void af_expect(af_u64* barrier, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(af_shared(barrier)), "r"(bytes) : "memory"); }
// Returns when the phase of that parity has ended.
AF_FN void af_wait(af_u64* barrier, af_u32 parity) {
  af_u32 done;
  do {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(af_shared(barrier)), "r"(parity) : "memory");
  } while (!done);
}
AF_FN void af_store_if(bool condition, af_u64 tensor, af_i64 element, float value) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %0, 0;\n@p st.global.f32 [%1], %2;\n}" ::"r"(int(condition)), "l"(tensor + element * 4), "f"(value) : "memory");
}
// Groups of threads of one workgroup: the n-th thread to come to barrier `id` ends the wait.
AF_FN void af_named_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
AF_FN void af_named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
template <int N> AF_FN void af_registers_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> AF_FN void af_registers_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

// Boxes of a tensor with dimensions d, s, h, b; swizzled rows of 128 bytes in shared memory.
AF_FN void af_bulk_load(void* to, const af_tensor_map* map, af_u64* barrier, int d, int s, int h, int b, af_u64 hint) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;"
               ::"r"(af_shared(to)), "l"(map), "r"(af_shared(barrier)), "r"(d), "r"(s), "r"(h), "r"(b), "l"(hint) : "memory");
}
AF_FN void af_bulk_store(const af_tensor_map* map, const void* from, int d, int s, int h, int b, af_u64 hint) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4, %5}], [%1], %6;"
               ::"l"(map), "r"(af_shared(from)), "r"(d), "r"(s), "r"(h), "r"(b), "l"(hint) : "memory");
}
AF_FN void af_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> AF_FN void af_bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
template <int N> AF_FN void af_bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
// Plain stores to shared memory before it are seen by copies and products after it.
AF_FN void af_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A shared matrix as operand: 128-byte swizzle, strides between repetitions in bytes.
AF_FN af_u64 af_descriptor(const void* tile, int leading_bytes, int stride_bytes) {
  return af_u64((af_shared(tile) & 0x3ffff) >> 4) | af_u64(leading_bytes >> 4) << 16 | af_u64(stride_bytes >> 4) << 32 | 1ull << 62;
}
AF_FN void af_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
AF_FN void af_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> AF_FN void af_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
// The compiler may not move accesses of these registers across.
template <int N> AF_FN void af_keep(float (&x)[N]) {
#pragma unroll
  for (int n = 0; n < N; ++n) asm volatile("" : "+f"(x[n])::"memory");
}
// What follows stays behind the computation of x, which the assembler does not see otherwise: it would move a wait for
// products before work that is there to run beside them. No computation yields the bits that would store.
AF_FN void af_after(float x) { asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, %0, 0xffedcba9;\n@p st.shared.b32 [%1], %0;\n}" ::"f"(x), "r"(0) : "memory"); }
AF_FN void af_stmatrix(void* row, af_u32 a, af_u32 b, af_u32 c, af_u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(af_shared(row)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
)";

// What both the device and other executors of the text use as it is.
constexpr std::string_view kShared =
    R"(// A query tile handed out: none is left; computed as usual; again, with care; to be computed again.
enum : int { af_none = 0, af_usual = 1, af_careful = 2, af_again = 3 };
// Element (row, col) of a tile of panels of 128-byte rows, 16-byte chunks permuted by row.
template <int Rows, int Panel, int Chunk> AF_FN int af_swizzled(int row, int col) {
  return col / Panel * (Rows * Panel) + row * Panel + ((col % Panel / Chunk) ^ (row & 7)) * Chunk + col % Chunk;
}
// Whether any of eight elements is not finite: an exponent of ones carries into the sign's place.
AF_FN bool af_has_nonfinite_f16(const af_f16* chunk) {
  const uint4 v = *reinterpret_cast<const uint4*>(chunk);
  const af_u32 m = 0x7c007c00u, one = 0x04000400u;
  return ((((v.x & m) + one) | ((v.y & m) + one) | ((v.z & m) + one) | ((v.w & m) + one)) & 0x80008000u) != 0;
}
AF_FN bool af_has_nonfinite_bf16(const af_bf16* chunk) {
  const uint4 v = *reinterpret_cast<const uint4*>(chunk);
  const af_u32 m = 0x7f807f80u, one = 0x00800080u;
  return ((((v.x & m) + one) | ((v.y & m) + one) | ((v.z & m) + one) | ((v.w & m) + one)) & 0x80008000u) != 0;
}
// Zeroes the non-finite ones of eight elements; whether there were any.
AF_FN bool af_scrub_f16(af_f16* chunk) {
  uint4 v = *reinterpret_cast<uint4*>(chunk);
  bool found = false;
  af_u32* words = reinterpret_cast<af_u32*>(&v);
  for (int n = 0; n < 4; ++n) {
    if ((words[n] & 0x7c00u) == 0x7c00u) words[n] &= 0xffff0000u, found = true;
    if ((words[n] & 0x7c000000u) == 0x7c000000u) words[n] &= 0xffffu, found = true;
  }
  if (found) *reinterpret_cast<uint4*>(chunk) = v;
  return found;
}
AF_FN bool af_scrub_bf16(af_bf16* chunk) {
  uint4 v = *reinterpret_cast<uint4*>(chunk);
  bool found = false;
  af_u32* words = reinterpret_cast<af_u32*>(&v);
  for (int n = 0; n < 4; ++n) {
    if ((words[n] & 0x7f80u) == 0x7f80u) words[n] &= 0xffff0000u, found = true;
    if ((words[n] & 0x7f800000u) == 0x7f800000u) words[n] &= 0xffffu, found = true;
  }
  if (found) *reinterpret_cast<uint4*>(chunk) = v;
  return found;
}
)";

// Shapes of the products in a body: columns of the accumulator, and whether the first operand is in
// registers.
struct Shape {
  int n;
  bool from_registers;
  auto operator<=>(const Shape&) const = default;
};

void collect(const TileProgram& program, const Body& body, std::set<Shape>& shapes) {
  for (const Statement& statement : body)
    std::visit(overloaded{[&](const Mma& s) {
                            shapes.insert({program.tile(s.accumulator).cols,
                                           program.tile(s.a).space == Space::registers});
                          },
                          [&](const If& s) { collect(program, s.body, shapes); },
                          [&](const While& s) { collect(program, s.body, shapes); },
                          [&](const WorkItems& s) { collect(program, s.body, shapes); },
                          [&](const Roles& s) {
                            for (const Role& role : s.roles) collect(program, role.body, shapes);
                          },
                          [](const auto&) {}},
               statement.kind);
}

// d[64 x n] (+)= a[64 x 16] b[16 x n]: a by descriptor with b's rows along n, or a in registers with b's rows
// along the contraction.
std::string product(const Shape& shape, std::string_view type) {
  const int registers = shape.n / 2;
  std::string d, outputs;
  for (int r = 0; r < registers; ++r) {
    d += fmt::format("{}%{}", r == 0 ? "" : ", ", r);
    outputs += fmt::format("{}\"+f\"(d[{}])", r == 0 ? "" : ", ", r);
  }
  const int a = registers, inputs = shape.from_registers ? 4 : 1;
  const std::string a_text = shape.from_registers
                                 ? fmt::format("{{%{}, %{}, %{}, %{}}}", a, a + 1, a + 2, a + 3)
                                 : fmt::format("%{}", a);
  const std::string a_arguments =
      shape.from_registers ? "af_u32 a0, af_u32 a1, af_u32 a2, af_u32 a3" : "af_u64 a";
  const std::string a_operands = shape.from_registers ? R"("r"(a0), "r"(a1), "r"(a2), "r"(a3))" : R"("l"(a))";
  const int b = a + inputs;
  return fmt::format(
      "AF_FN void af_wgmma_{0}_{1}(float (&d)[{2}], {3}, af_u64 b, int accumulate) {{\n"
      "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{4}, 0;\\n\"\n"
      "               \"wgmma.mma_async.sync.aligned.m64n{5}k16.f32.{1}.{1} {{{6}}}, {7}, %{8}, p, 1, "
      "1{9};\\n}}\"\n"
      "               : {10}\n"
      "               : {11}, \"l\"(b), \"r\"(accumulate));\n"
      "}}\n",
      shape.from_registers ? "rs" : "ss", type, registers, a_arguments, b + 1, shape.n, d, a_text, b,
      shape.from_registers ? ", 1" : ", 0, 0", outputs, a_operands);
}

}  // namespace

std::string hopper_prelude(const TileProgram& program) {
  std::set<Shape> shapes;
  collect(program, program.body, shapes);
  std::string text = std::string(kHopper) + std::string(kShared);
  for (const Shape& shape : shapes) text += product(shape, name(program.info.dtype));
  return text;
}

}  // namespace attnfuse::cuda
