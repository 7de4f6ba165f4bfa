#include "runtime/cuda.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace attnfuse;

namespace {

Target target(const std::string& arch) {
  Target t;
  t.name = "cuda:" + arch;
  t.backend = "cuda";
  t.arch = arch;
  return t;
}

// y[i] = factor * x[i] through dynamic shared memory; the last workgroup is partial.
constexpr const char* kScale = R"(
struct Params { const float* x; float* y; float factor; int count; };
extern "C" __global__ void scale(const Params p) {
  extern __shared__ float staged[];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < p.count) staged[20000 + threadIdx.x] = p.x[i];
  __syncthreads();
  if (i < p.count) p.y[i] = p.factor * staged[20000 + threadIdx.x];
}
)";

bool has_assembler() {
  if (!cuda::assembler().empty()) return true;
  MESSAGE("skipped: no CUDA assembler here");
  const auto binary = cuda::assemble(kScale, "scale", target("sm_80"));
  CHECK(binary.errors()[0].code == "toolkit.missing");
  return false;
}

}  // namespace

TEST_CASE("registers, spills and shared memory are read off the assembler's messages") {
  const Resources some = cuda::resources_from_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "    256 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 256 bytes cumulative stack size, 1024 bytes "
      "smem\n");
  CHECK(some.registers == 40);
  CHECK(some.spill_bytes == 12);
  CHECK(some.shared_bytes == 1024);
  const Resources none = cuda::resources_from_log("");
  CHECK(none.registers == -1);
  CHECK(none.spill_bytes == -1);
  CHECK(none.shared_bytes == -1);
}

TEST_CASE("a device runs code of its generation, and code with a suffix only on the very same capability") {
  CHECK(cuda::runs(8, 0, "sm_80"));
  CHECK(cuda::runs(8, 6, "sm_80"));
  CHECK(cuda::runs(8, 9, "sm_89"));
  CHECK(!cuda::runs(8, 6, "sm_89"));
  CHECK(!cuda::runs(9, 0, "sm_80"));
  CHECK(cuda::runs(9, 0, "sm_90a"));
  CHECK(cuda::runs(10, 0, "sm_100a"));
  CHECK(!cuda::runs(10, 3, "sm_100a"));
  CHECK(cuda::runs(12, 0, "sm_120a"));
}

TEST_CASE("a kernel is assembled for every generation, with its resources") {
  if (!has_assembler()) return;
  for (const char* arch : {"sm_80", "sm_90a", "sm_120a"}) {
    const auto binary = cuda::assemble(kScale, "scale", target(arch));
    REQUIRE_MESSAGE(binary.ok(), render(binary.errors()));
    CHECK(binary->bytes.size() > 100);
    CHECK(std::memcmp(binary->bytes.data(),
                      "\x7f"
                      "ELF",
                      4) == 0);
    CHECK(binary->format == "cubin");
    CHECK(binary->resources.registers > 0);
    CHECK(binary->resources.spill_bytes == 0);
  }
}

TEST_CASE("a kernel that the assembler refuses gives its log") {
  if (!has_assembler()) return;
  const auto binary =
      cuda::assemble("extern \"C\" __global__ void scale() { undeclared(); }", "scale", target("sm_80"));
  REQUIRE(!binary.ok());
  CHECK(binary.errors()[0].code == "assemble.failed");
  CHECK(binary.errors()[0].message.find("undeclared") != std::string::npos);
}

TEST_CASE("a machine without driver, without device or without that device says which") {
  const std::vector<Target> targets = {target("sm_80"), target("sm_90a")};
  const int count = cuda::device_count();
  const auto device = cuda::open(count, targets);
  REQUIRE(!device.ok());
  const std::string& code = device.errors()[0].code;
  CHECK_MESSAGE(
      (code == "device.none" || (count == 0 && (code == "driver.missing" || code == "driver.failed"))), code);
  CHECK(!cuda::open(-1, targets).ok());
}

TEST_CASE("a device that no target is for is named with its capability") {
  if (cuda::device_count() == 0) return;
  const std::vector<Target> targets = {target("sm_20")};
  CHECK(cuda::open(0, targets).errors()[0].code == "device.unsupported");
}

TEST_CASE("a kernel with more than 48 KiB of shared memory runs on the device and is timed") {
  if (cuda::device_count() == 0 || cuda::assembler().empty()) {
    MESSAGE("skipped: no CUDA device here");
    return;
  }
  const std::vector<Target> targets = {target("sm_80"), target("sm_89"), target("sm_90a"), target("sm_100a")};
  const auto opened = cuda::open(0, targets);
  REQUIRE_MESSAGE(opened.ok(), render(opened.errors()));
  Device& device = **opened;
  const auto module = device.load(cuda::assemble(kScale, "scale", device.target()).value());
  REQUIRE_MESSAGE(module.ok(), render(module.errors()));
  std::vector<float> x(1000), y(1000);
  for (std::size_t n = 0; n < x.size(); ++n) x[n] = float(n);
  const auto in = device.allocate(4000).value(), out = device.allocate(4000).value();
  REQUIRE(device.upload(*in, 0, std::as_bytes(std::span(x))).ok());
  struct Params {
    std::uint64_t x, y;
    float factor;
    int count;
  } params{in->address(), out->address(), 2.5F, 1000};
  const Launch launch{{8, 1, 1}, 128, 90000};
  const auto bytes = std::as_bytes(std::span(&params, 1));
  const auto milliseconds = device.time([&] { return device.launch(**module, launch, bytes); });
  REQUIRE_MESSAGE(milliseconds.ok(), render(milliseconds.errors()));
  CHECK(*milliseconds > 0);
  REQUIRE(device.download(*out, 0, std::as_writable_bytes(std::span(y))).ok());
  for (std::size_t n = 0; n < y.size(); ++n) REQUIRE(y[n] == 2.5F * float(n));
  CHECK(device.allocate(std::size_t(1) << 45).errors()[0].code == "device.out-of-memory");
  CHECK(device.launch(**module, {{8, 1, 1}, 128, 10'000'000}, bytes).errors()[0].code == "device.failed");
}
