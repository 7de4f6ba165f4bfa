#include "runtime/argument_block.h"

#include <doctest/doctest.h>

#include <cstring>

#include "runtime/test_device.h"

using namespace attnfuse;
using namespace attnfuse::testing;

namespace {

// [b, h, s, d] of bf16, contiguous.
BoundTensor tensor(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
  return {0x1000, DType::bf16, 4, {b, h, s, d}, {h * s * d, s * d, d, 1}};
}

template <class T>
T read_at(std::span<const std::byte> block, std::size_t offset) {
  T value;
  std::memcpy(&value, &block[offset], sizeof value);
  return value;
}

ParamField field(ParamField::Kind kind, const char* tensor, int offset) {
  ParamField f;
  f.kind = kind;
  f.name = tensor;
  f.tensor = tensor;
  f.offset = offset;
  f.box_rows = 64;
  f.box_columns = 32;
  return f;
}

// "Encodes" a map by what identifies it, and keeps what it was asked.
class EngineDriver : public FakeDriver {
 public:
  std::vector<TensorMap> asked;
  int encode(EncodedTensorMap& encoded, const TensorMap& map, bool& supported) override {
    supported = true;
    asked.push_back(map);
    std::memcpy(encoded.data(), &map.address, sizeof map.address);
    return fail == "encode" ? failure_code : 0;
  }
};

}  // namespace

TEST_CASE("sixteen-byte access needs the address and every stride that is stepped over") {
  const auto access = [](const BoundTensor& t) { return access_of(t, 0); };
  BoundTensor t = tensor(2, 4, 3, 8);
  CHECK(access(t) == Access::vector);
  t.address += 2;
  CHECK(access(t) == Access::element);
  t = tensor(2, 4, 3, 8);
  t.strides[1] += 4;
  CHECK(access(t) == Access::element);
  t.shape[1] = 1;
  CHECK(access(t) == Access::vector);
  t = tensor(2, 4, 3, 8);
  t.strides[0] = t.strides[1] = 0;
  CHECK(access(t) == Access::vector);
}

TEST_CASE("the copy engine takes steps forward over rows of whole units, and no empty tensor") {
  const auto access = [](const BoundTensor& t) { return access_of(t, 16); };
  BoundTensor t = tensor(2, 4, 3, 8);
  CHECK(access(t) == Access::copy_engine);
  std::swap(t.strides[1], t.strides[2]);  // [b, s, h, d]
  CHECK(access(t) == Access::copy_engine);
  t.strides[1] = 0;
  CHECK(access(t) == Access::vector);
  t.shape[1] = 1;
  CHECK(access(t) == Access::copy_engine);
  t.strides[1] = std::int64_t(1) << 50;
  CHECK(access(t) == Access::copy_engine);
  t = tensor(2, 4, 3, 8);
  t.strides[0] = std::int64_t(1) << 39;  // 2^40 bytes
  CHECK(access(t) == Access::vector);
  CHECK(access(tensor(2, 4, 0, 8)) == Access::vector);
  t = tensor(2, 4, 3, 8);
  t.dtype = DType::f32;
  CHECK(access(t) == Access::vector);
  t = tensor(2, 4, 3, 8);
  t.address += 8;
  CHECK(access(t) == Access::element);
}

TEST_CASE("a tensor map has the tensor's axes from the innermost on, in bytes") {
  TileProgram program;
  program.params = {field(ParamField::Kind::tensor_map, "k", 64)};
  program.param_bytes = 192;
  const auto driver = std::make_shared<EngineDriver>();
  const auto device = make_gpu_device(driver, {Target{}});
  const std::string names[] = {"q", "k"};
  ArgumentBlock arguments(program, names);
  BoundTensor t = tensor(5, 4, 3, 8);
  t.shape[0] = 1;
  t.strides = {-7, 1000, 16, 1};
  const BoundTensor call[] = {{}, t};
  const auto block = arguments.fill(call, {}, 0, *device);
  REQUIRE(block.ok());
  CHECK(read_at<std::uint64_t>(*block, 64) == 0x1000);
  REQUIRE(driver->asked.size() == 1);
  const TensorMap& map = driver->asked[0];
  CHECK(map.extents == std::array<std::int64_t, 4>{8, 3, 4, 1});
  CHECK(map.strides_bytes[0] == 32);
  CHECK(map.strides_bytes[1] == 2000);
  CHECK(map.strides_bytes[2] == 16);  // of one element: any that the engine takes
  CHECK(map.box_rows == 64);
  CHECK(map.box_columns == 32);
}

TEST_CASE("a tensor without batch axis is one batch entry to the copy engine") {
  TileProgram program;
  program.params = {field(ParamField::Kind::tensor_map, "q", 0)};
  program.param_bytes = 128;
  const auto driver = std::make_shared<EngineDriver>();
  const auto device = make_gpu_device(driver, {Target{}});
  const std::string names[] = {"q"};
  const BoundTensor packed{0x1000, DType::bf16, 3, {4, 9, 8}, {72, 8, 1}};
  CHECK(access_of(packed, 16) == Access::copy_engine);
  ArgumentBlock arguments(program, names);
  REQUIRE(arguments.fill(std::span(&packed, 1), {}, 0, *device).ok());
  const TensorMap& map = driver->asked.at(0);
  CHECK(map.extents == std::array<std::int64_t, 4>{8, 9, 4, 1});
  CHECK(map.strides_bytes[0] == 16);
  CHECK(map.strides_bytes[1] == 144);
}

TEST_CASE("a tensor is described to the copy engine once, whatever stands at its address later") {
  TileProgram program;
  program.params = {field(ParamField::Kind::tensor_map, "k", 0)};
  program.param_bytes = 128;
  const auto driver = std::make_shared<EngineDriver>();
  const auto device = make_gpu_device(driver, {Target{}});
  const std::string names[] = {"k"};
  ArgumentBlock arguments(program, names);
  const auto fill = [&](const BoundTensor& t) {
    const auto block = arguments.fill(std::span(&t, 1), {}, 0, *device);
    REQUIRE(block.ok());
    CHECK(read_at<std::uint64_t>(*block, 0) == t.address);
  };
  BoundTensor a = tensor(2, 4, 3, 8), b = tensor(2, 4, 30, 8);
  for (int n = 0; n < 3; ++n) {
    fill(a);
    fill(b);
  }
  CHECK(driver->asked.size() == 2);  // same address, other extents
  for (int n = 0; n < 100; ++n) {
    a.address += 16;
    fill(a);
    fill(a);
  }
  CHECK(driver->asked.size() == 102);
  driver->fail = "encode";
  a.address += 16;
  CHECK(arguments.fill(std::span(&a, 1), {}, 0, *device).errors()[0].code == "device.failed");
}

TEST_CASE("a device without a copy engine says so") {
  const auto device = make_gpu_device(std::make_shared<FakeDriver>(), {Target{}});
  CHECK(render(device->encode({}).errors()) ==
        "error[device.failed]: Fake GPU has no copy engine for tensors\n  fix: use the portable schedule");
}
