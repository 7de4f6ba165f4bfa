// Bulk tensor copies: boxes, swizzle, bounds; and what a kernel must do before and after them.
#include <numeric>

#include "backends/cuda/emulator/test_kernel.h"

namespace attnfuse::cuda::testing {
namespace {

constexpr int kColumns = 72, kRows = 20, kHeads = 2, kBatch = 2;  // of the tensor: bf16, rows of 144 bytes

// One map, boxes of 64 columns by 16 rows.
std::vector<MapOf> maps_of(std::size_t buffer) {
  TensorMap map;
  map.type = DType::bf16;
  map.extents = {kColumns, kRows, kHeads, kBatch};
  map.strides_bytes = {kColumns * 2, kRows * kColumns * 2, kHeads * kRows * kColumns * 2};
  map.box_columns = 64;
  map.box_rows = 16;
  return {{buffer, map}};
}

Words counted() {
  constexpr int kElements = kColumns * kRows * kHeads * kBatch;
  std::vector<std::uint16_t> elements(kElements);
  std::iota(elements.begin(), elements.end(), std::uint16_t(1));
  Words words(kElements / 2);
  std::memcpy(words.data(), elements.data(), kElements * 2);
  return words;
}

std::uint16_t element(const Words& words, int index) {
  return std::uint16_t(words[std::size_t(index / 2)] >> 16 * (index % 2));
}

// The element of the tensor, or 0 outside.
int wanted(int d, int s, int h, int b) {
  if (d < 0 || d >= kColumns || s < 0 || s >= kRows || h < 0 || h >= kHeads || b < 0 || b >= kBatch) return 0;
  return (((b * kHeads + h) * kRows + s) * kColumns + d) + 1;
}

}  // namespace

TEST_CASE("a bulk load brings a box, swizzled, with zeros outside the tensor") {
  if (!has_compiler()) return;
  // Coordinates in buffer 1; the box by rows, once unswizzled, in buffer 2.
  const std::string body = R"(
  af_u64* barrier = reinterpret_cast<af_u64*>(shared_memory + 2048);
  unsigned short* tile = reinterpret_cast<unsigned short*>(shared_memory);
  if (thread == 0) {
    af_barrier_init(barrier, 1);
    af_barrier_init_fence();
    af_expect(barrier, 2048);
    const int* c = reinterpret_cast<const int*>(args.p[1]);
    af_bulk_load(tile, &args.map[0], barrier, c[0], c[1], c[2], c[3], hint);
  }
  __syncthreads();
  if (mode == 0) af_wait(barrier, 0);
  for (int e = 2 * thread; e < 1024; e += 64) {
    const int row = e / 64, col = e % 64;
    args.p[2][e / 2] = *reinterpret_cast<af_u32*>(tile + swizzled_element(row, col));
  }
  if (mode == 1) af_wait(barrier, 0);
)";
  constexpr int kCorners[][4] = {{0, 0, 0, 0}, {64, 16, 1, 1}, {-8, -3, 1, 0}, {8, 4, 2, 0}, {8, 4, 0, -1}};
  for (const auto& corner : kCorners)
    for (const Experiment& how : all_policies({32, 2056})) {
      if (how.order != Order::forward && corner[0] != 0) continue;
      Words coordinates(4);
      std::memcpy(coordinates.data(), corner, sizeof corner);
      const auto result = execute(body, {counted(), coordinates, Words(512)}, how, maps_of(0));
      REQUIRE_MESSAGE(result.ok(), text_of(result));
      int wrong = 0;
      for (int e = 0; e < 1024; ++e)
        wrong +=
            element((*result)[2], e) != wanted(corner[0] + e % 64, corner[1] + e / 64, corner[2], corner[3]);
      CHECK(wrong == 0);
    }
  const auto unawaited = execute(body, {counted(), Words(4), Words(512)}, {32, 2056, 1}, maps_of(0));
  REQUIRE_MESSAGE(unawaited.ok(), text_of(unawaited));
  CHECK(element((*unawaited)[2], 5) == 0xffff);
}

TEST_CASE("a bulk store writes what lies in the tensor, and nothing else") {
  if (!has_compiler()) return;
  const std::string body = R"(
  unsigned short* tile = reinterpret_cast<unsigned short*>(shared_memory);
  af_u64* barrier = reinterpret_cast<af_u64*>(shared_memory + 2048);
  if (thread == 0) af_barrier_init(barrier, 1);  // from here on writes are watched
  __syncthreads();
  for (int e = thread; e < 1024; e += 32) tile[swizzled_element(e / 64, e % 64)] = (unsigned short)(0x8000 + e);
  if (mode != 1 || lane != 9) af_fence_async();
  __syncthreads();
  if (thread == 0) {
    af_bulk_store(&args.map[0], tile, 16, 8, 1, 0, hint);
    if (mode != 2) af_bulk_commit();
    if (mode == 3) tile[70] = 1;
    if (mode != 4) af_bulk_wait_read<0>();
    tile[70] = 2;
    if (mode != 5) af_bulk_wait<0>();
  }
)";
  for (const Experiment& how : all_policies({32, 2056})) {
    const auto result = execute(body, {counted()}, how, maps_of(0));
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    int wrong = 0;
    for (int b = 0, e = 0; b < kBatch; ++b)
      for (int h = 0; h < kHeads; ++h)
        for (int s = 0; s < kRows; ++s)
          for (int d = 0; d < kColumns; ++d, ++e) {
            const int row = s - 8, col = d - 16;
            const bool inside = b == 0 && h == 1 && row >= 0 && row < 16 && col >= 0 && col < 64;
            wrong += element((*result)[0], e) != (inside ? 0x8000 + row * 64 + col : e + 1);
          }
    CHECK(wrong == 0);
    const auto run = [&](int mode) {
      Experiment other = how;
      other.mode = mode;
      return text_of(execute(body, {counted()}, other, maps_of(0)));
    };
    CHECK(run(1).find("emulator.proxy]: workgroup 0,0,0: a bulk store of thread 0 meets shared memory +0x") !=
          std::string::npos);
    CHECK(run(1).find("which thread 9 wrote without a later af_fence_async") != std::string::npos);
    CHECK(run(2).find("emulator.race") != std::string::npos);
    CHECK(run(3) ==
          "error[emulator.race]: workgroup 0,0,0: thread 0 writes shared memory +0x80, which a bulk store of "
          "thread 0 may still read");
    CHECK(run(4).find("emulator.race") != std::string::npos);
    CHECK(run(5).empty());  // the end of the kernel waits too
  }
}

TEST_CASE("misuse of bulk copies is reported") {
  if (!has_compiler()) return;
  const std::string body = R"(
  unsigned char* tile = shared_memory;
  af_u64* barrier = reinterpret_cast<af_u64*>(shared_memory + 4096);
  if (thread != 0) return;
  if (mode == 10) tile[77] = 1;
  if (mode != 0) af_barrier_init(barrier, 1);
  if (mode == 9) tile[77] = 1;
  if (mode != 1) af_barrier_init_fence();
  if (mode == 2) tile += 512;
  if (mode == 3) tile += 3072;
  const af_tensor_map* map = &args.map[0];
  if (mode == 4) map = reinterpret_cast<const af_tensor_map*>(&args.p[0]);
  if (mode == 15) map = reinterpret_cast<const af_tensor_map*>(&args.p[1]);
  if (mode == 5) { af_expect(barrier, 2049); }
  if (mode == 6) { af_expect(barrier, 2047); }
  if (mode > 6) af_expect(barrier, mode == 8 ? 4096 : 2048);
  af_bulk_load(tile, map, barrier, 0, 0, 0, mode == 11 ? 1 : 0, mode == 7 ? 5 : hint);
  if (mode == 8) af_bulk_load(tile, map, barrier, 0, 0, 0, 0, hint);
  if (mode != 12) af_wait(barrier, 0);
  if (mode == 13) af_bulk_store(map, tile, 0, 0, 0, 0, hint);
  if (mode == 14) { af_bulk_store(map, tile, 0, 0, 0, 0, hint); af_bulk_commit(); }
)";
  const auto run = [&](int mode) { return execute(body, {counted()}, {32, 4104, mode}, maps_of(0)); };
  CHECK(code_of(run(0)) == "emulator.barrier");
  CHECK(code_of(run(1)) == "emulator.proxy");
  CHECK(code_of(run(2)) == "emulator.alignment");
  CHECK(code_of(run(3)) == "emulator.fault");
  CHECK(code_of(run(4)) == "emulator.tensor-map");
  CHECK(code_of(run(15)) == "emulator.alignment");
  CHECK(text_of(run(5)) ==
        "error[emulator.deadlock]: workgroup 0,0,0: no thread can go on; thread 0 waits for parity 0 of the "
        "barrier at +0x1000, whose phase 0 lacks 0 of 1 arrivals and 1 bytes");
  CHECK(text_of(run(6)) ==
        "error[emulator.barrier]: workgroup 0,0,0: 1 bytes more than expected have landed on the barrier at "
        "+0x1000");
  CHECK(code_of(run(7)) == "emulator.operand");
  CHECK(code_of(run(8)) == "emulator.race");
  CHECK(code_of(run(9)) == "emulator.proxy");
  CHECK(run(11).ok());
  CHECK(code_of(run(12)) == "emulator.unfinished");
  CHECK(code_of(run(13)) == "emulator.unfinished");
  CHECK(code_of(run(14)) == "emulator.unfinished");

  // A map that names more than its buffer holds.
  auto beyond = maps_of(0);
  beyond[0].map.extents[3] = 3;
  beyond[0].map.address = kColumns * kRows * kHeads * 2;
  CHECK(code_of(execute(body, {counted()}, {32, 4104, 11}, beyond)) == "emulator.fault");
}

TEST_CASE("maps that the driver would refuse are refused") {
  const auto code = [](auto change) {
    TensorMap map = maps_of(0)[0].map;
    map.address = 4096;
    change(map);
    const auto encoded = make_emulator(emulated_targets())->encode(map);
    return encoded ? std::string() : encoded.errors()[0].message;
  };
  CHECK(code([](TensorMap&) {}).empty());
  CHECK(code([](TensorMap& m) { m.address += 8; }) ==
        "no tensor map: address 0x1008 is not a multiple of 16");
  CHECK(code([](TensorMap& m) { m.strides_bytes[1] = 40; }) ==
        "no tensor map: stride of 40 bytes is not a multiple of 16 below 2^40");
  CHECK(code([](TensorMap& m) { m.extents[2] = 0; }) == "no tensor map: extent 0 is not in 1 to 2^32");
  CHECK(code([](TensorMap& m) { m.box_columns = 128; }) ==
        "no tensor map: rows of a box are 256 bytes, the swizzle wants 128");
  CHECK(code([](TensorMap& m) { m.box_rows = 257; }) ==
        "no tensor map: a box has 257 rows, allowed are 1 to 256");
}

}  // namespace attnfuse::cuda::testing
