// Links the shared library alone: what is tested is what other languages see.
#include "runtime/attnfuse.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" attnfuse_tensor attnfuse_test_tensor(const char* name, void* data, int32_t dtype, int32_t rank,
                                                const int64_t* shape);

namespace {

constexpr const char* kTarget = "hip-cpu:gfx942";
constexpr std::int64_t kBatch = 1, kHeads = 2, kKvHeads = 1, kSq = 5, kSkv = 9, kDim = 16;
constexpr const char* kText =
    "attention small {\n"
    "  heads 2  kv_heads 1  head_dim 16  dtype f32\n"
    "  param slope : f32[heads]\n"
    "  score scale(0.25)\n"
    "  score x + slope[h] * (j - i)\n"
    "  mask causal\n"
    "  normalize softmax\n"
    "}\n";

std::string last_error() { return attnfuse_last_error(); }

struct Device {
  Device() { REQUIRE_MESSAGE(attnfuse_device_open(kTarget, &handle) == ATTNFUSE_OK, last_error()); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { attnfuse_device_close(handle); }
  attnfuse_device* handle = nullptr;
};

// A program, its tensors on the device, and a call of it. `ready` is false where no assembler is installed.
struct Fixture {
  Fixture() {
    const attnfuse_status status = attnfuse_compile(device.handle, kText, nullptr, &program);
    if (status == ATTNFUSE_NO_TOOLKIT) {
      MESSAGE("SKIPPED: " << last_error());
      return;
    }
    REQUIRE_MESSAGE(status == ATTNFUSE_OK, last_error());
    ready = true;
    add("q", {kBatch, kHeads, kSq, kDim});
    add("k", {kBatch, kKvHeads, kSkv, kDim});
    add("v", {kBatch, kKvHeads, kSkv, kDim});
    add("slope", {kHeads});
    add("o", {kBatch, kHeads, kSq, kDim});
    add("lse", {kBatch, kHeads, kSq});
    call.struct_size = sizeof call;
    call.tensors = tensors.data();
    call.tensor_count = tensors.size();
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() { attnfuse_program_release(program); }

  void add(const char* name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (std::int64_t extent : shape) count *= std::size_t(extent);
    std::vector<float>& data = values.emplace_back(count);
    for (std::size_t n = 0; n < count; ++n) data[n] = float(std::sin(double(13 * n + values.size() * 7)));
    void* memory = nullptr;
    REQUIRE(attnfuse_alloc(device.handle, count * 4, &memory) == ATTNFUSE_OK);
    REQUIRE(attnfuse_upload(device.handle, memory, 0, data.data(), count * 4) == ATTNFUSE_OK);
    tensors.push_back(
        attnfuse_test_tensor(name, memory, ATTNFUSE_F32, std::int32_t(shape.size()), shape.data()));
  }

  Device device;
  attnfuse_program* program = nullptr;
  bool ready = false;
  std::vector<attnfuse_tensor> tensors;
  std::vector<std::vector<float>> values;
  attnfuse_call call{};
};

// What the program means, by loops over what was uploaded.
std::vector<double> expected_output(const Fixture& f) {
  const auto &q = f.values[0], &k = f.values[1], &v = f.values[2], &slope = f.values[3];
  std::vector<double> o;
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kSq; ++i) {
      std::vector<double> weights;
      double sum = 0;
      for (std::int64_t j = 0; j <= i + kSkv - kSq; ++j) {
        double x = 0;
        for (std::int64_t d = 0; d < kDim; ++d)
          x += double(q[std::size_t((h * kSq + i) * kDim + d)]) * double(k[std::size_t(j * kDim + d)]);
        weights.push_back(std::exp(0.25 * x + double(slope[std::size_t(h)]) * double(j - i)));
        sum += weights.back();
      }
      for (std::int64_t d = 0; d < kDim; ++d) {
        double value = 0;
        for (std::size_t j = 0; j < weights.size(); ++j)
          value += weights[j] / sum * double(v[j * std::size_t(kDim) + std::size_t(d)]);
        o.push_back(value);
      }
    }
  return o;
}

attnfuse_status launch(Fixture& f) { return attnfuse_launch(f.program, &f.call); }

void check_output(Fixture& f) {
  REQUIRE_MESSAGE(attnfuse_supports(f.program, &f.call) == ATTNFUSE_OK, last_error());
  std::size_t workspace = 1;
  REQUIRE(attnfuse_workspace_bytes(f.program, &f.call, &workspace) == ATTNFUSE_OK);
  if (workspace > 0) REQUIRE(attnfuse_alloc(f.device.handle, workspace, &f.call.workspace) == ATTNFUSE_OK);
  f.call.workspace_bytes = workspace;
  REQUIRE_MESSAGE(launch(f) == ATTNFUSE_OK, last_error());
  REQUIRE(attnfuse_synchronize(f.device.handle) == ATTNFUSE_OK);
  std::vector<float> o(f.values[4].size());
  REQUIRE(attnfuse_download(f.device.handle, f.tensors[4].data, 0, o.data(), o.size() * 4) == ATTNFUSE_OK);
  const std::vector<double> wanted = expected_output(f);
  REQUIRE(wanted.size() == o.size());
  for (std::size_t n = 0; n < o.size(); ++n) CHECK(double(o[n]) == doctest::Approx(wanted[n]).epsilon(1e-4));
}

}  // namespace

TEST_CASE("a program compiled from text computes attention on memory of the device") {
  Fixture f;
  if (f.ready) check_output(f);
}

TEST_CASE("values may be a view of the keys' memory") {
  Fixture f;
  if (!f.ready) return;
  f.tensors[2].data = f.tensors[1].data;
  f.values[2] = f.values[1];
  check_output(f);
}

TEST_CASE("tensors may come in any order, and the device handle may go before the program") {
  Fixture f;
  if (!f.ready) return;
  std::swap(f.tensors[0], f.tensors[5]);
  std::swap(f.tensors[1], f.tensors[3]);
  CHECK(launch(f) == ATTNFUSE_OK);
  attnfuse_device* other = nullptr;
  REQUIRE(attnfuse_device_open(kTarget, &other) == ATTNFUSE_OK);
  attnfuse_program* program = nullptr;
  REQUIRE(attnfuse_compile(other, kText, nullptr, &program) == ATTNFUSE_OK);
  attnfuse_device_close(other);
  CHECK(attnfuse_launch(program, &f.call) == ATTNFUSE_OK);
  attnfuse_program_release(program);
}

TEST_CASE("a program tells its tensors and its kernels") {
  Fixture f;
  if (!f.ready) return;
  REQUIRE(attnfuse_tensor_count(f.program) == 6);
  attnfuse_tensor_info info{};
  info.struct_size = sizeof info;
  REQUIRE(attnfuse_tensor_at(f.program, 1, &info) == ATTNFUSE_OK);
  CHECK(std::string(info.name) == "k");
  CHECK(info.dtype == ATTNFUSE_F32);
  CHECK(info.rank == 4);
  CHECK(info.is_output == 0);
  CHECK(info.shape[0] == -1);
  CHECK(info.shape[1] == kKvHeads);
  CHECK(info.shape[3] == kDim);
  REQUIRE(attnfuse_tensor_at(f.program, 5, &info) == ATTNFUSE_OK);
  CHECK(std::string(info.name) == "lse");
  CHECK(info.is_output == 1);
  CHECK(attnfuse_tensor_at(f.program, 6, &info) == ATTNFUSE_BAD_ARGUMENT);

  std::size_t count = 0;
  REQUIRE(attnfuse_kernels(f.program, &f.call, nullptr, 0, &count) == ATTNFUSE_OK);
  REQUIRE(count >= 1);
  std::vector<attnfuse_kernel_info> kernels(count);
  kernels[0].struct_size = sizeof kernels[0];
  REQUIRE(attnfuse_kernels(f.program, &f.call, kernels.data(), count, &count) == ATTNFUSE_OK);
  CHECK(std::string(kernels.back().schedule) == "portable");
  CHECK(kernels.back().threads > 0);
  CHECK(kernels.back().block_q > 0);
  kernels[0].struct_size = 4;
  CHECK(attnfuse_kernels(f.program, &f.call, kernels.data(), count, &count) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() ==
        "attnfuse_kernels: struct_size of attnfuse_kernel_info is 4; set it to sizeof(attnfuse_kernel_info)");
}

TEST_CASE("a mistake in a program is shown where it stands") {
  const Device device;
  attnfuse_program* program = nullptr;
  attnfuse_options options{sizeof options, "mine.attn"};
  CHECK(attnfuse_compile(device.handle, "attention a { heads 2 head_dim 64 dtype f16 mask kausal }", &options,
                         &program) == ATTNFUSE_BAD_PROGRAM);
  CHECK(program == nullptr);
  const std::string message = last_error();
  CHECK_MESSAGE(message.find("mine.attn:1:") == 0, message);
  CHECK_MESSAGE(message.find('\n') != std::string::npos, message);
  CHECK_MESSAGE(message.find('^') != std::string::npos, message);
  CHECK_MESSAGE(message.find("kausal") != std::string::npos, message);
}

TEST_CASE("targets that do not exist and devices that are not there are told apart") {
  attnfuse_device* device = nullptr;
  CHECK(attnfuse_device_open("fortran:77", &device) == ATTNFUSE_NO_TARGET);
  CHECK(last_error().find("there is no target 'fortran:77'") != std::string::npos);
  CHECK(device == nullptr);
  const attnfuse_status status = attnfuse_device_open(nullptr, &device);
  CHECK((status == ATTNFUSE_OK || status == ATTNFUSE_NO_DEVICE));
  if (status != ATTNFUSE_OK) {
    CHECK(device == nullptr);
    CHECK(last_error().find("CUDA") != std::string::npos);
  }
  attnfuse_device_close(device);
}

TEST_CASE("null arguments are refused by name") {
  Fixture f;
  if (!f.ready) return;
  attnfuse_program* program = nullptr;
  void* data = nullptr;
  const attnfuse_status refused[] = {
      attnfuse_device_open(kTarget, nullptr),
      attnfuse_compile(nullptr, kText, nullptr, &program),
      attnfuse_compile(f.device.handle, nullptr, nullptr, &program),
      attnfuse_compile(f.device.handle, kText, nullptr, nullptr),
      attnfuse_supports(nullptr, &f.call),
      attnfuse_supports(f.program, nullptr),
      attnfuse_workspace_bytes(f.program, &f.call, nullptr),
      attnfuse_kernels(f.program, &f.call, nullptr, 0, nullptr),
      attnfuse_tensor_at(f.program, 0, nullptr),
      attnfuse_launch(nullptr, &f.call),
      attnfuse_launch(f.program, nullptr),
      attnfuse_alloc(f.device.handle, 4, nullptr),
      attnfuse_alloc(nullptr, 4, &data),
      attnfuse_free(nullptr, data),
      attnfuse_upload(f.device.handle, f.tensors[0].data, 0, nullptr, 4),
      attnfuse_download(f.device.handle, f.tensors[0].data, 0, nullptr, 4),
      attnfuse_synchronize(nullptr),
  };
  for (attnfuse_status status : refused) CHECK(status == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() == "attnfuse_synchronize: device is null");
  f.call.tensors = nullptr;
  CHECK(launch(f) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() == "attnfuse_launch: tensors is null");
  attnfuse_device_close(nullptr);
  attnfuse_program_release(nullptr);
  CHECK(attnfuse_free(f.device.handle, nullptr) == ATTNFUSE_OK);
  CHECK(attnfuse_tensor_count(nullptr) == 0);
}

TEST_CASE("a call that does not fit its program is refused before anything runs") {
  const auto refused = [](const char* tensor, auto change, attnfuse_status wanted, const char* words) {
    Fixture f;
    if (!f.ready) return;
    for (attnfuse_tensor& t : f.tensors)
      if (std::strcmp(t.name, tensor) == 0) change(t);
    CHECK(attnfuse_supports(f.program, &f.call) == wanted);
    CHECK_MESSAGE(launch(f) == wanted, words);
    CHECK_MESSAGE(last_error().find(words) != std::string::npos, last_error());
  };
  using T = attnfuse_tensor;
  refused(
      "slope", [](T& t) { t.name = "slopes"; }, ATTNFUSE_BAD_TENSOR,
      "program 'small' needs the tensor 'slope'");
  refused("slope", [](T& t) { t.name = "slopes"; }, ATTNFUSE_BAD_TENSOR, "declares no tensor 'slopes'");
  refused("slope", [](T& t) { t.name = "q"; }, ATTNFUSE_BAD_TENSOR, "tensor 'q' is given twice");
  refused("slope", [](T& t) { t.name = nullptr; }, ATTNFUSE_BAD_ARGUMENT, "tensor 3 has no name");
  refused("k", [](T& t) { t.rank = 3; }, ATTNFUSE_BAD_TENSOR, "3 dimensions, the program declares 4");
  refused("k", [](T& t) { t.rank = 9; }, ATTNFUSE_BAD_ARGUMENT, "rank 9, the limit is 8");
  refused(
      "k", [](T& t) { t.dtype = ATTNFUSE_F16; }, ATTNFUSE_BAD_TENSOR, "'k' is f16, the program declares f32");
  refused("k", [](T& t) { t.dtype = 17; }, ATTNFUSE_BAD_ARGUMENT, "dtype 17");
  refused("v", [](T& t) { t.strides[3] = 2; }, ATTNFUSE_BAD_TENSOR, "the last one must be 1, not 2");
  refused("v", [](T& t) { t.strides[2] = -16; }, ATTNFUSE_BAD_TENSOR, "-16 at dimension 2 is negative");
  refused("v", [](T& t) { t.data = nullptr; }, ATTNFUSE_BAD_TENSOR, "tensor 'v' is at address 0");
  refused(
      "o", [](T& t) { t.shape[2] = 6; }, ATTNFUSE_BAD_TENSOR, "sq is 6 here, but 5 according to tensor 'q'");
  refused("lse", [](T& t) { t.strides[2] = 0; }, ATTNFUSE_BAD_TENSOR, "writes elements over each other");
}

TEST_CASE("a call lacks no tensor and has none too many") {
  Fixture f;
  if (!f.ready) return;
  --f.call.tensor_count;
  CHECK(launch(f) == ATTNFUSE_BAD_TENSOR);
  CHECK(last_error().find("writes the tensor 'lse'") != std::string::npos);
  f.call.tensor_count = 0;
  CHECK(launch(f) == ATTNFUSE_BAD_TENSOR);
  f.tensors.push_back(f.tensors[3]);
  f.tensors.back().name = "extra";
  f.call.tensors = f.tensors.data();
  f.call.tensor_count = f.tensors.size();
  CHECK(launch(f) == ATTNFUSE_BAD_TENSOR);
  CHECK(last_error().find("declares no tensor 'extra'") != std::string::npos);
}

TEST_CASE("structs of other versions are taken when nothing in them is unknown") {
  Fixture f;
  if (!f.ready) return;
  struct Newer {
    attnfuse_call call;
    std::uint64_t added;
  } newer{f.call, 0};
  newer.call.struct_size = sizeof newer;
  CHECK(attnfuse_launch(f.program, &newer.call) == ATTNFUSE_OK);
  newer.added = 1;
  CHECK(attnfuse_launch(f.program, &newer.call) == ATTNFUSE_BAD_ARGUMENT);
  f.call.struct_size = 0;
  CHECK(launch(f) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() ==
        "attnfuse_launch: struct_size of attnfuse_call is 0; set it to sizeof(attnfuse_call)");
}

TEST_CASE("copies stay inside memory that the device gave") {
  Fixture f;
  if (!f.ready) return;
  char bytes[8] = {};
  void* data = f.tensors[3].data;  // 8 bytes
  CHECK(attnfuse_upload(f.device.handle, data, 0, bytes, 8) == ATTNFUSE_OK);
  CHECK(attnfuse_upload(f.device.handle, data, 1, bytes, 8) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() == "attnfuse_upload: 8 bytes at offset 1 do not lie in 8 bytes");
  CHECK(attnfuse_download(f.device.handle, data, SIZE_MAX, bytes, 8) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(attnfuse_download(f.device.handle, bytes, 0, bytes, 8) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(attnfuse_free(f.device.handle, bytes) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(attnfuse_free(f.device.handle, data) == ATTNFUSE_OK);
  CHECK(attnfuse_free(f.device.handle, data) == ATTNFUSE_BAD_ARGUMENT);
}

TEST_CASE("every thread has its own last error, and every status a name") {
  CHECK(attnfuse_synchronize(nullptr) == ATTNFUSE_BAD_ARGUMENT);
  std::string elsewhere = "?";
  std::thread([&] { elsewhere = attnfuse_last_error(); }).join();
  CHECK(elsewhere.empty());
  CHECK(last_error() == "attnfuse_synchronize: device is null");
  for (int status = ATTNFUSE_OK; status <= ATTNFUSE_INTERNAL; ++status)
    CHECK(std::string(attnfuse_status_name(attnfuse_status(status))) != "unknown status");
  CHECK(std::string(attnfuse_status_name(attnfuse_status(99))) == "unknown status");
  CHECK(attnfuse_version() == ATTNFUSE_VERSION);
}
