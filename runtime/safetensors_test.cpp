#include "runtime/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <sstream>

#include "runtime/process.h"

using namespace attnfuse;

namespace {

std::string length_of(std::uint64_t n) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += char(n >> shift & 0xff);
  return bytes;
}

std::string file(const std::string& json, std::size_t data_bytes) {
  return length_of(json.size()) + json + std::string(data_bytes, '\1');
}

Result<HostTensors> read(const std::string& bytes) {
  std::istringstream stream(bytes);
  return read_safetensors(stream, "x.safetensors");
}

std::string problem(const std::string& bytes) {
  const auto tensors = read(bytes);
  return tensors.ok() ? "none" : render(tensors.errors());
}

std::string problem(const std::string& json, std::size_t data_bytes) {
  return problem(file(json, data_bytes));
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

}  // namespace

TEST_CASE("a file is read as the format's description says") {
  const std::string json = R"({"__metadata__":{"made":"by hand"},)" + entry("a", "F32", "[2]", "[0,8]") +
                           "," + entry("b", "BF16", "[1,2]", "[8,12]") + "}  ";
  std::string bytes = length_of(json.size()) + json;
  bytes += std::string("\0\0\x80\x3f\0\0\0\xc0", 8);  // 1, -2
  bytes += std::string("\x40\x40\0\0", 4);            // 3, 0
  const auto tensors = read(bytes);
  REQUIRE_MESSAGE(tensors.ok(), render(tensors.errors()));
  const std::int64_t second[] = {1}, first[] = {0, 0};
  CHECK(tensors->at("a").get(second) == -2);
  CHECK(tensors->at("b").get(first) == 3);
  CHECK(tensors->at("b").layout.shape == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("every dtype survives writing and reading, and strided tensors become dense") {
  HostTensors tensors;
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i32, DType::boolean}) {
    HostTensor tensor = HostTensor::zeros({dtype, {2, 3}, {1, 4}});
    for (std::int64_t a = 0; a < 2; ++a)
      for (std::int64_t b = 0; b < 3; ++b) {
        const std::int64_t index[] = {a, b};
        tensor.set(index, double(3 * a + b));
      }
    tensors["t_" + std::string(name(dtype))] = tensor;
  }
  tensors["empty"] = HostTensor::zeros(TensorLayout::contiguous(DType::f32, {0, 5}));
  tensors["scalar \"quoted\""] = HostTensor::zeros(TensorLayout::contiguous(DType::i32, {}));
  const auto back = read(safetensors_bytes(tensors));
  REQUIRE_MESSAGE(back.ok(), render(back.errors()));
  REQUIRE(back->size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const HostTensor& other = back->at(name);
    CHECK(other.layout.shape == tensor.layout.shape);
    CHECK(other.layout.dtype == tensor.layout.dtype);
    if (tensor.layout.shape.size() != 2) continue;
    for (std::int64_t a = 0; a < tensor.layout.shape[0]; ++a)
      for (std::int64_t b = 0; b < 3; ++b) {
        const std::int64_t index[] = {a, b};
        CHECK(other.get(index) == tensor.get(index));
      }
  }
}

TEST_CASE("booleans are read as 0 and 1 whatever their bytes") {
  const std::string json = "{" + entry("m", "BOOL", "[2]", "[0,2]") + "}";
  const auto tensors = read(length_of(json.size()) + json + std::string("\x02\0", 2));
  REQUIRE(tensors.ok());
  CHECK(tensors->at("m").bytes == std::vector<std::byte>{std::byte{1}, std::byte{0}});
}

TEST_CASE("a file that ends too early says where") {
  CHECK(problem("") ==
        "error[safetensors.truncated]: x.safetensors ends inside the eight bytes that give the header's "
        "length");
  CHECK(problem(length_of(100) + "{}") ==
        "error[safetensors.truncated]: x.safetensors ends inside its header of 100 bytes");
  CHECK(problem("{" + entry("a", "F32", "[4]", "[0,16]") + "}", 15) ==
        "error[safetensors.truncated]: x.safetensors ends inside tensor 'a', whose data is bytes 0 to 16");
}

TEST_CASE("a header that promises terabytes allocates nothing") {
  CHECK(problem(length_of(std::uint64_t(1) << 62) + "{}")
            .find("[safetensors.header]: x.safetensors: a header of 4611686018427387904 bytes, more than "
                  "100000000") != std::string::npos);
  CHECK(problem("{" + entry("a", "BOOL", "[4611686018427387904]", "[0,4611686018427387904]") + "}", 3)
            .find("safetensors.truncated") != std::string::npos);
}

TEST_CASE("offsets that overlap, leave holes, run backwards or leave data over are refused") {
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  CHECK(problem("{" + a + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12) ==
        "error[safetensors.offsets]: x.safetensors: the data of tensor 'b' begins at byte 4, inside another "
        "tensor's, "
        "which ends at byte 8");
  CHECK(problem("{" + a + "," + entry("b", "F32", "[2]", "[12,20]") + "}", 20) ==
        "error[safetensors.offsets]: x.safetensors: the data of tensor 'b' begins at byte 12, leaving a hole "
        "from byte 8");
  CHECK(problem("{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8) ==
        "error[safetensors.offsets]: x.safetensors: tensor 'a' begins at 8 and ends before, at 0");
  CHECK(problem("{" + a + "}", 9) ==
        "error[safetensors.offsets]: x.safetensors holds data after byte 8 that belongs to no tensor");
}

TEST_CASE("shapes that do not fit the data, and sizes that overflow, are refused") {
  CHECK(
      problem("{" + entry("a", "F32", "[3]", "[0,8]") + "}", 8) ==
      "error[safetensors.size]: x.safetensors: tensor 'a' has 8 bytes of data, but F32 of shape [3] are 12");
  for (const char* shape : {"[4611686018427387904,8]", "[0,4611686018427387904,8]", "[18446744073709551615]"})
    CHECK(problem("{" + entry("a", "F32", shape, "[0,0]") + "}", 0).find("which no memory can hold") !=
          std::string::npos);
  CHECK(problem("{" + entry("a", "F64", "[1]", "[0,8]") + "}", 8) ==
        "error[safetensors.dtype]: x.safetensors: tensor 'a' has dtype F64\n"
        "  fix: convert it to F16, BF16, F32, I32 or BOOL");
}

TEST_CASE("names and fields that come twice are refused") {
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  CHECK(problem("{" + a + "," + a + "}", 8) ==
        "error[safetensors.duplicate]: x.safetensors: 'a' is there twice");
  CHECK(problem(R"({"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}})", 8) ==
        "error[safetensors.duplicate]: x.safetensors: 'a/dtype' is there twice");
}

TEST_CASE("headers that are no table of tensors are refused") {
  for (const char* json : {"",
                           "[]",
                           "3",
                           "null",
                           "\"a\"",
                           "{",
                           "{}}",
                           "{\"a\":3}",
                           "{\"a\":[]}",
                           "{\"a\":{}}",
                           R"({"a":{"dtype":3}})",
                           R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})",
                           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})",
                           R"({"a":{"dtype":"F32","shape":[2]}})",
                           R"({"a":{"dtype":"F32","shape":{"b":1},"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[{}],"data_offsets":[0,8]}})",
                           R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})",
                           R"({"__metadata__":{"a":1}})",
                           R"({"__metadata__":{"a":{"b":"c"}}})",
                           R"({"__metadata__":[]})",
                           R"({"a":true})",
                           "@@@@"})
    CHECK_MESSAGE(problem(json, 8).find("error[safetensors.header]") == 0, json);
  CHECK(problem("{\"a\xff\":{}}", 0).find("safetensors.header") != std::string::npos);
}

TEST_CASE("a header nested a million deep is refused, not followed") {
  CHECK(problem(std::string(1'000'000, '['), 0).find("safetensors.header") != std::string::npos);
  std::string deep;
  for (int n = 0; n < 100'000; ++n) deep += "{\"a\":";
  CHECK(problem(deep, 0).find("safetensors.header") != std::string::npos);
}

TEST_CASE("a well-formed file cut anywhere, or with any byte changed, gives tensors or a diagnostic") {
  const std::string good =
      file("{" + entry("a", "F32", "[2]", "[0,8]") + "," + entry("b", "I32", "[1]", "[8,12]") + "}", 12);
  REQUIRE(problem(good) == "none");
  for (std::size_t size = 0; size < good.size(); ++size) CHECK(problem(good.substr(0, size)) != "none");
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int flip : {1, 0x20, 0x80}) {
      std::string changed = good;
      changed[at] = char(changed[at] ^ flip);
      const auto tensors = read(changed);
      if (tensors.ok()) CHECK(tensors->size() == 2);
    }
}

TEST_CASE("files are written whole or not at all, and missing ones are named") {
  const auto directory = TemporaryDirectory::create();
  REQUIRE(directory.ok());
  const std::string path = directory->path() / "y.safetensors";
  HostTensors tensors{{"o", HostTensor::zeros(TensorLayout::contiguous(DType::f32, {2}))}};
  REQUIRE(write_safetensors(path, tensors).ok());
  CHECK(read_safetensors(path)->count("o") == 1);
  const auto status = write_safetensors(directory->path() / "no" / "y.safetensors", tensors);
  CHECK(status.errors()[0].code == "file.write");
  CHECK(read_safetensors(directory->path() / "none").errors()[0].code == "file.read");
  CHECK(!read_safetensors(directory->path()).ok());
  CHECK(read_safetensors("/dev/zero").errors()[0].code == "safetensors.header");
}
