// Hand-written shaders through the driver: addresses, barriers, subgroups, conversions.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "backends/spirv/glslang.h"
#include "backends/spirv/targets.h"
#include "runtime/tensor.h"

using namespace attnfuse;

namespace {

constexpr std::string_view kHead = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float x[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { float16_t x[]; };
layout(buffer_reference, std430) buffer Arguments { uint64_t from; uint64_t to; int count; };
layout(push_constant) uniform Push { Arguments args; };
)";

struct Arguments {
  std::uint64_t from, to;
  std::int32_t count;
};

// The first device, or null with the reason printed.
std::shared_ptr<Device> device() {
  if (!spirv::has_glslang()) {
    MESSAGE("skipped: built without glslang");
    return nullptr;
  }
  const auto opened = vulkan::open(0, spirv::targets_of);
  if (!opened) {
    MESSAGE("skipped: ", render(opened.errors()));
    return nullptr;
  }
  return *opened;
}

Binary binary(const Device& on, const std::string& text) {
  const auto compiled = spirv::compile_glsl(std::string(kHead) + text);
  REQUIRE_MESSAGE(compiled.ok(), render(compiled.errors()));
  Binary result{on.target().name, "spirv", "main", {}, {}, {}};
  const auto bytes = std::as_bytes(std::span(compiled->words));
  result.bytes.assign(bytes.begin(), bytes.end());
  return result;
}

// Runs one kernel of `threads` threads and `groups` workgroups over `from`.
template <class To, class From>
std::vector<To> run(Device& on, const std::string& text, const std::vector<From>& from, std::size_t outputs,
                    int threads, unsigned groups) {
  const auto module = on.load(binary(on, text));
  REQUIRE_MESSAGE(module.ok(), render(module.errors()));
  auto in = *on.allocate(from.size() * sizeof(From));
  auto out = *on.allocate(outputs * sizeof(To));
  REQUIRE(on.upload(*in, 0, std::as_bytes(std::span(from))).ok());
  std::vector<To> result(outputs);
  REQUIRE(on.upload(*out, 0, std::as_bytes(std::span(result))).ok());
  const Arguments arguments{in->address(), out->address(), int(from.size())};
  const Status launched =
      on.launch(**module, {{groups, 1, 1}, threads, 0}, std::as_bytes(std::span(&arguments, 1)));
  REQUIRE_MESSAGE(launched.ok(), render(launched.errors()));
  REQUIRE(on.download(*out, 0, std::as_writable_bytes(std::span(result))).ok());
  return result;
}

}  // namespace

TEST_SUITE("spirv") {
  TEST_CASE("a kernel reaches tensors by the 64-bit addresses in its argument block") {
    const auto on = device();
    if (on == nullptr) return;
    std::vector<float> from(1000);
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = float(k) * 0.5F;
    const auto to = run<float>(*on, R"(
layout(local_size_x = 64) in;
void main() {
  const int i = int(gl_GlobalInvocationID.x);
  if (i < args.count) Floats(args.to + uint64_t(i) * 4ul).x[0] = Floats(args.from).x[i] * 3.0f;
})",
                               from, 1000, 64, 16);
    for (std::size_t k = 0; k < to.size(); ++k) REQUIRE(to[k] == from[k] * 3);
  }

  TEST_CASE("threads numbered by subgroup exchange with their neighbours and meet at barriers") {
    const auto on = device();
    if (on == nullptr) return;
    std::vector<float> from(128);
    for (std::size_t k = 0; k < from.size(); ++k) from[k] = float(k * k % 97);
    const auto to = run<float>(*on, R"(
layout(local_size_x = 128) in;
shared float sums[32];
void main() {
  const int thread = int(gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID);
  float x = Floats(args.from).x[thread];
  x += subgroupShuffleXor(x, 1u);
  x += subgroupShuffleXor(x, 2u);
  if (thread % 4 == 0) sums[thread / 4] = x;
  barrier();
  Floats(args.to).x[thread] = sums[31 - thread / 4];
})",
                               from, 128, 128, 1);
    for (std::size_t k = 0; k < to.size(); ++k) {
      float sum = 0;
      for (std::size_t n = 0; n < 4; ++n) sum += from[(31 - k / 4) * 4 + n];
      CHECK(to[k] == sum);
    }
  }

  TEST_CASE("conversion to f16 rounds to nearest even") {
    const auto on = device();
    if (on == nullptr) return;
    std::vector<float> from = {0,        -0.0F, 1,        1.00048828125F, 1.00146484375F, 65504,
                               65519.9F, 65520, 1e9F,     6e-8F,          2.9e-8F,        3.1e-8F,
                               0.1F,     -0.3F, INFINITY, -INFINITY};
    for (int k = 0; k < 2000; ++k)
      from.push_back(std::ldexp(1 + float(k * 2654435761U >> 9) / float(1 << 23), k % 40 - 24));
    const auto to = run<std::uint16_t>(*on, R"(
layout(local_size_x = 64) in;
void main() {
  const int i = int(gl_GlobalInvocationID.x);
  if (i < args.count) Halves(args.to).x[i] = float16_t(Floats(args.from).x[i]);
})",
                                       from, from.size(), 64, unsigned(from.size() / 64 + 1));
    for (std::size_t k = 0; k < to.size(); ++k) {
      std::uint16_t wanted = 0;
      store_element(DType::f16, reinterpret_cast<std::byte*>(&wanted), double(from[k]));
      INFO(from[k]);
      CHECK(to[k] == wanted);
    }
  }

  TEST_CASE("launches in flight keep their own argument blocks") {
    const auto on = device();
    if (on == nullptr) return;
    const auto module = on->load(binary(*on, R"(
layout(local_size_x = 1) in;
void main() { Floats(args.to).x[args.count] = Floats(args.from).x[0] + float(args.count); })"));
    REQUIRE(module.ok());
    const float one = 1;
    auto in = *on->allocate(4), out = *on->allocate(200 * 4);
    REQUIRE(on->upload(*in, 0, std::as_bytes(std::span(&one, 1))).ok());
    const auto launch_all = [&]() -> Status {
      for (int k = 0; k < 200; ++k) {
        const Arguments arguments{in->address(), out->address(), k};
        if (Status status = on->launch(**module, {{1, 1, 1}, 1, 0}, std::as_bytes(std::span(&arguments, 1)));
            !status)
          return status;
      }
      return Unit{};
    };
    std::vector<float> to(200);
    SUBCASE("submitted one by one") { REQUIRE(launch_all().ok()); }
    SUBCASE("timed") {
      const auto milliseconds = on->time(launch_all);
      REQUIRE(milliseconds.ok());
      CHECK(*milliseconds > 0);
    }
    REQUIRE(on->download(*out, 0, std::as_writable_bytes(std::span(to))).ok());
    for (int k = 0; k < 200; ++k) CHECK(to[std::size_t(k)] == float(k + 1));
  }

  TEST_CASE("parts of a buffer are uploaded and downloaded") {
    const auto on = device();
    if (on == nullptr) return;
    auto buffer = *on->allocate(64);
    const std::vector<std::uint8_t> zeros(64, 0), some = {1, 2, 3};
    std::vector<std::uint8_t> back(64);
    REQUIRE(on->upload(*buffer, 0, std::as_bytes(std::span(zeros))).ok());
    REQUIRE(on->upload(*buffer, 7, std::as_bytes(std::span(some))).ok());
    REQUIRE(on->download(*buffer, 0, std::as_writable_bytes(std::span(back))).ok());
    for (std::size_t k = 0; k < 64; ++k) CHECK(back[k] == (k >= 7 && k < 10 ? some[k - 7] : 0));
    REQUIRE(on->download(*buffer, 8, std::as_writable_bytes(std::span(back.data(), 2))).ok());
    CHECK(back[0] == 2);
    CHECK(on->allocate(0).ok());
  }

  TEST_CASE("memory that no device has is refused by name") {
    const auto on = device();
    if (on == nullptr) return;
    const auto buffer = on->allocate(std::size_t(1) << 50);
    REQUIRE(!buffer.ok());
    CHECK(buffer.errors()[0].code == "device.out-of-memory");
  }

  TEST_CASE("bytes that are no SPIR-V, and code for other targets, are refused") {
    const auto on = device();
    if (on == nullptr) return;
    Binary good = binary(*on, "layout(local_size_x = 1) in;\nvoid main() {}");
    Binary truncated = good, other = good, empty = good;
    truncated.bytes.resize(truncated.bytes.size() - 4);
    empty.bytes.clear();
    other.target = "spirv:other";
    CHECK(on->load(good).ok());
    CHECK(on->load(truncated).errors().at(0).code == "binary.invalid");
    CHECK(on->load(empty).errors().at(0).code == "binary.invalid");
    CHECK(on->load(other).errors().at(0).code == "device.wrong-target");
  }

  TEST_CASE("a device that is not there is refused by number") {
    if (device() == nullptr) return;
    const auto opened = vulkan::open(1000, spirv::targets_of);
    REQUIRE(!opened.ok());
    CHECK(opened.errors()[0].code == "device.none");
  }

  TEST_CASE("GLSL that is wrong is reported with the compiler's line") {
    const auto compiled =
        spirv::compile_glsl("#version 460\nlayout(local_size_x = 1) in;\nvoid main() { int x = y; }\n");
    REQUIRE(!compiled.ok());
    if (!spirv::has_glslang()) {
      CHECK(compiled.errors()[0].code == "toolkit.missing");
      return;
    }
    CHECK(compiled.errors()[0].code == "assemble.failed");
    CHECK(compiled.errors()[0].message.find("0:3") != std::string::npos);
  }

  TEST_CASE("a device runs the targets whose needs it meets, best first") {
    vulkan::DeviceFacts facts{"test", false,    32,   32,    32,
                              true,   48 << 10, 1024, 65535, {{DType::f16, 16, 16, 16}}};
    const auto names = [&] {
      std::string text;
      for (const Target& target : spirv::targets_of(facts)) text += target.arch + " ";
      return text;
    };
    CHECK(names() == "cooperative generic plain ");
    facts.shared_bytes = 32 << 10;
    CHECK(names() == "generic plain ");
    facts.matrices = {{DType::f16, 8, 8, 8}};
    facts.min_subgroup_size = 8;
    CHECK(names() == "cooperative8 generic plain ");
    facts.subgroup_size = facts.min_subgroup_size = facts.max_subgroup_size = 2;
    CHECK(names() == "plain ");
    facts.subgroup_size = 64;
    facts.subgroup_shuffle = false;
    CHECK(names() == "plain ");
    facts.max_threads = 128;
    CHECK(names().empty());
  }
}
