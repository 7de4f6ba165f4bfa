// Barriers: who waits, who goes on, and what misuse is called.
#include "backends/cuda/emulator/test_kernel.h"

namespace attnfuse::cuda::testing {

TEST_CASE("__syncthreads meets the threads that have not ended, under every order") {
  if (!has_compiler()) return;
  const std::string body = R"(
  af_u32* seen = reinterpret_cast<af_u32*>(shared_memory);
  if (thread >= 96) return;
  seen[thread] = thread;
  if (mode == 0) __syncthreads();
  args.p[0][thread] = seen[95 - thread];
)";
  for (const Experiment& how : all_policies({128, 512})) {
    const auto result = execute(body, {Words(96)}, how);
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    for (std::uint32_t t = 0; t < 96; ++t) CHECK((*result)[0][t] == 95 - t);
  }
  const auto without = execute(body, {Words(96)}, {128, 512, 1});
  REQUIRE(without.ok());
  CHECK((*without)[0][0] == 0xffffffffU);  // what was never written
}

TEST_CASE("named barriers count the threads that come, waiting or not") {
  if (!has_compiler()) return;
  // Two warps write, the third waits for them.
  const std::string body = R"(
  af_u32* seen = reinterpret_cast<af_u32*>(shared_memory);
  const int id = mode == 1 ? 0 : mode == 2 ? 16 : 3, count = mode == 3 ? 80 : mode == 4 && warp == 1 ? 64 : 96;
  if (warp < 2) {
    seen[thread] = thread + 1;
    if (mode != 5 || warp == 0) af_named_arrive(id, count);
    if (mode == 6) af_named_arrive(id, count);
  } else {
    af_named_sync(id, count);
    args.p[0][lane] = seen[lane] + seen[63 - lane];
  }
)";
  for (const Experiment& how : all_policies({96, 512})) {
    const auto result = execute(body, {Words(32)}, how);
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    for (std::uint32_t t = 0; t < 32; ++t) CHECK((*result)[0][t] == 65);
  }
  for (const int mode : {1, 2, 3, 4, 6}) {
    CAPTURE(mode);
    CHECK(code_of(execute(body, {Words(32)}, {96, 512, mode})) == "emulator.barrier");
  }
  CHECK(text_of(execute(body, {Words(32)}, {96, 512, 5})) ==
        "error[emulator.deadlock]: workgroup 0,0,0: no thread can go on; threads 64-95: each waits at named "
        "barrier 3 (64 of 96 threads have come)");
}

TEST_CASE("a phase of an mbarrier ends with its last arrival; waiting for the phase before returns at once") {
  if (!has_compiler()) return;
  const std::string body = R"(
  af_u64* barrier = reinterpret_cast<af_u64*>(shared_memory);
  af_u32* value = reinterpret_cast<af_u32*>(shared_memory + 16);
  if (thread == 0) { af_barrier_init(barrier, 32); af_barrier_init_fence(); }
  __syncthreads();
  af_wait(barrier, 1);
  __syncthreads();
  for (af_u32 round = 0; round < 5; ++round) {
    if (warp == 0) {
      if (lane == 31) value[round] = round + 1;
      __syncwarp();
      af_arrive(barrier);
    } else {
      af_wait(barrier, round & 1);
      args.p[0][lane] += value[round];
    }
    __syncthreads();
  }
)";
  for (const Experiment& how : all_policies({64, 512})) {
    const auto result = execute(body, {Words(32)}, how);
    REQUIRE_MESSAGE(result.ok(), text_of(result));
    for (std::uint32_t t = 0; t < 32; ++t) CHECK((*result)[0][t] == 15);
  }
}

TEST_CASE("misuse of an mbarrier is reported") {
  if (!has_compiler()) return;
  const std::string body = R"(
  af_u64* barrier = reinterpret_cast<af_u64*>(shared_memory);
  if (thread != 0) return;
  if (mode == 0) af_arrive(barrier);
  if (mode == 1) af_barrier_init(barrier, 0);
  if (mode == 2) af_barrier_init(reinterpret_cast<af_u64*>(shared_memory + 4), 1);
  if (mode < 3) return;
  af_barrier_init(barrier, 2);
  if (mode == 3) af_barrier_init(barrier, 2);
  if (mode == 4) { *barrier = 0; af_arrive(barrier); }
  if (mode == 5) { af_expect(barrier, 64); af_arrive(barrier); af_arrive(barrier); }
  if (mode == 6) { af_arrive(barrier); af_wait(barrier, 0); }
  if (mode == 7) af_wait(barrier, 2);
  if (mode == 8) { af_expect(barrier, 64); af_expect(barrier, 128); }
  if (mode == 9) af_arrive(reinterpret_cast<af_u64*>(shared_memory + 64));
)";
  const auto run = [&](int mode) { return execute(body, {}, {32, 64, mode}); };
  const std::string at = "error[emulator.barrier]: workgroup 0,0,0: ";
  CHECK(text_of(run(0)) == at + "af_arrive of thread 0: the barrier at +0x0 was never initialised");
  CHECK(text_of(run(1)) == at + "af_barrier_init of thread 0: 0 arrivals, allowed are 1 to 1048575");
  CHECK(code_of(run(2)) == "emulator.alignment");
  CHECK(text_of(run(3)) == at + "af_barrier_init of thread 0: the barrier at +0x0 is in use");
  CHECK(text_of(run(4)) == at + "af_arrive of thread 0: the barrier at +0x0 was overwritten");
  CHECK(text_of(run(5)) ==
        at + "af_arrive of thread 0: the barrier at +0x0 has all its 2 arrivals and still expects 64 bytes");
  CHECK(text_of(run(6)) ==
        "error[emulator.deadlock]: workgroup 0,0,0: no thread can go on; thread 0 waits for parity 0 of the "
        "barrier at +0x0, whose phase 0 lacks 1 of 2 arrivals and 0 bytes");
  CHECK(text_of(run(7)) == at + "af_wait of thread 0: parity 2 is neither 0 nor 1");
  CHECK(text_of(run(8)) == at + "the workgroup ends while the barrier at +0x0 expects 192 more bytes");
  CHECK(code_of(run(9)) == "emulator.fault");
}

TEST_CASE("registers move between warpgroups through the pool of the launch") {
  if (!has_compiler()) return;
  // 384 threads start with 168 each: 504 for three.
  const std::string body = R"(
  if (warp < 4) {
    if (mode == 1) af_registers_dec<32>(); else if (mode == 2) af_registers_dec<20>(); else af_registers_dec<24>();
  } else {
    if (mode == 3) af_registers_inc<160>(); else if (mode != 4 || warp != 9) af_registers_inc<240>();
  }
  args.p[0][thread] = 1;
)";
  for (const Experiment& how : all_policies({384})) {
    const auto result = execute(body, {Words(384)}, how);
    REQUIRE_MESSAGE(result.ok(), text_of(result));
  }
  const auto starved = execute(body, {Words(384)}, {384, 0, 1});
  REQUIRE(code_of(starved) == "emulator.deadlock");
  CHECK(text_of(starved).find("waits for 240 registers, of which it has 168 and") != std::string::npos);
  CHECK(code_of(execute(body, {Words(384)}, {384, 0, 2})) == "emulator.registers");
  CHECK(code_of(execute(body, {Words(384)}, {384, 0, 3})) == "emulator.registers");
  CHECK(text_of(execute(body, {Words(384)}, {384, 0, 4})) ==
        "error[emulator.registers]: workgroup 0,0,0: warps 8 and 9 of one warpgroup ask for different "
        "registers");
}

}  // namespace attnfuse::cuda::testing
