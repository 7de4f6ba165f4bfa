#include "runtime/hip.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace attnfuse;

namespace {

Target target(const std::string& arch) {
  Target t;
  t.name = "hip:" + arch;
  t.backend = "hip";
  t.arch = arch;
  return t;
}

constexpr const char* kSwap = R"(
struct Params { const float* x; float* y; int count; };
extern "C" __attribute__((global)) void swap(const Params p) {
  __attribute__((shared)) static float staged[64];
  const int i = __builtin_amdgcn_workitem_id_x();
  staged[i] = p.x[i];
  __builtin_amdgcn_s_barrier();
  if (i < p.count) p.y[i] = staged[i ^ 1];
}
)";

bool has_assembler() {
  if (!hip::assembler().empty()) return true;
  MESSAGE("skipped: no clang 16 or later, and no hiprtc here");
  CHECK(hip::assemble(kSwap, "swap", target("gfx942")).errors()[0].code == "toolkit.missing");
  return false;
}

}  // namespace

TEST_CASE("registers, private memory and shared memory are read off clang's remarks") {
  const Resources some = hip::resources_from_log(
      "k.hip:4:1: remark:     SGPRs: 14 [-Rpass]\nk.hip:4:1: remark:     VGPRs: 30 [-Rpass]\n"
      "k.hip:4:1: remark:     AGPRs: 16 [-Rpass]\nk.hip:4:1: remark:     ScratchSize [bytes/lane]: 8 "
      "[-Rpass]\n"
      "k.hip:4:1: remark:     SGPRs Spill: 5 [-Rpass]\nk.hip:4:1: remark:     LDS Size [bytes/block]: 512 "
      "[-Rpass]\n");
  CHECK(some.registers == 46);
  CHECK(some.spill_bytes == 8);
  CHECK(some.shared_bytes == 512);
  CHECK(hip::resources_from_log("").registers == -1);
  CHECK(hip::resources_from_log("remark:     VGPRs: many").registers == -1);
}

TEST_CASE("a kernel is assembled for CDNA and RDNA, with its resources, and without headers") {
  if (!has_assembler()) return;
  for (const char* arch : {"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"}) {
    const auto binary = hip::assemble(kSwap, "swap", target(arch));
    REQUIRE_MESSAGE(binary.ok(), render(binary.errors()));
    CHECK(std::memcmp(binary->bytes.data(),
                      "\x7f"
                      "ELF",
                      4) == 0);
    CHECK(binary->format == "hsaco");
    CHECK(binary->resources.registers > 0);
    CHECK(binary->resources.spill_bytes == 0);
    CHECK(binary->resources.shared_bytes == 256);
  }
}

TEST_CASE("a HIP kernel that the assembler refuses gives its log") {
  if (!has_assembler()) return;
  const auto binary = hip::assemble("extern \"C\" __attribute__((global)) void swap() { undeclared(); }",
                                    "swap", target("gfx942"));
  REQUIRE(!binary.ok());
  CHECK(binary.errors()[0].code == "assemble.failed");
  CHECK(binary.errors()[0].message.find("undeclared") != std::string::npos);
}

TEST_CASE("a machine without HIP runtime or without that device says which") {
  const std::vector<Target> targets = {target("gfx942")};
  const int count = hip::device_count();
  const auto device = hip::open(count, targets);
  REQUIRE(!device.ok());
  const std::string& code = device.errors()[0].code;
  CHECK_MESSAGE(
      (code == "device.none" || (count == 0 && (code == "driver.missing" || code == "driver.failed"))), code);
}
