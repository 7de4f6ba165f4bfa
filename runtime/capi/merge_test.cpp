// Calls over parts of the keys and their merge, as other languages see them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "runtime/attnfuse.h"

extern "C" attnfuse_tensor attnfuse_test_tensor(const char* name, void* data, int32_t dtype, int32_t rank,
                                                const int64_t* shape);

namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kKvHeads = 2, kSq = 3, kSkv = 21, kDim = 16;
constexpr std::int64_t kEnds[] = {0, 9, 9, 14, kSkv};  // of the parts' keys; the second has none
constexpr std::int64_t kParts = 4;
constexpr const char* kText =
    "attention part { heads 4 kv_heads 2 head_dim 16 dtype f32 score scale(0.4) mask window(1000, 1000) }";

std::string last_error() { return attnfuse_last_error(); }

// A device, or none where it is missing.
struct Session {
  explicit Session(const char* target, const char* text = kText) {
    if (attnfuse_device_open(target, &device) == ATTNFUSE_OK) {
      const attnfuse_status status = attnfuse_compile(device, text, nullptr, &program);
      REQUIRE_MESSAGE((status == ATTNFUSE_OK || status == ATTNFUSE_NO_TOOLKIT), last_error());
    }
    if (program == nullptr) MESSAGE("SKIPPED: " << last_error());
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    for (void* data : memory) attnfuse_free(device, data);
    attnfuse_program_release(program);
    attnfuse_device_close(device);
  }

  attnfuse_tensor tensor(const char* name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (std::int64_t extent : shape) count *= std::size_t(extent);
    void* data = nullptr;
    REQUIRE(attnfuse_alloc(device, count * 4, &data) == ATTNFUSE_OK);
    memory.push_back(data);
    return attnfuse_test_tensor(name, data, ATTNFUSE_F32, std::int32_t(shape.size()), shape.data());
  }
  std::vector<float> read(const attnfuse_tensor& tensor, std::size_t count) const {
    std::vector<float> values(count);
    REQUIRE(attnfuse_download(device, tensor.data, 0, values.data(), count * 4) == ATTNFUSE_OK);
    return values;
  }

  attnfuse_device* device = nullptr;
  attnfuse_program* program = nullptr;
  std::vector<void*> memory;
};

attnfuse_call call_of(const std::vector<attnfuse_tensor>& tensors) {
  attnfuse_call call{};
  call.struct_size = sizeof call;
  call.tensors = tensors.data();
  call.tensor_count = tensors.size();
  return call;
}

std::vector<float> filled(std::size_t count, double phase) {
  std::vector<float> values(count);
  for (std::size_t n = 0; n < count; ++n) values[n] = float(2 * std::sin(1.3 * double(n) + phase));
  return values;
}

// The element at `index` of one axis, as a tensor without it.
attnfuse_tensor slice(attnfuse_tensor tensor, const char* name, std::int32_t axis, std::int64_t index) {
  tensor.name = name;
  tensor.data = static_cast<float*>(tensor.data) + index * tensor.strides[axis];
  --tensor.rank;
  for (std::int32_t n = axis; n < tensor.rank; ++n) {
    tensor.shape[n] = tensor.shape[n + 1];
    tensor.strides[n] = tensor.strides[n + 1];
  }
  return tensor;
}
attnfuse_tensor keys(attnfuse_tensor tensor, std::int64_t begin, std::int64_t end) {
  tensor.data = static_cast<float*>(tensor.data) + begin * tensor.strides[2];
  tensor.shape[2] = end - begin;
  return tensor;
}

// Softmax over all keys by loops: o[d] of every row, then its logsumexp.
std::vector<double> expected(const std::vector<float>& q, const std::vector<float>& k,
                             const std::vector<float>& v) {
  std::vector<double> rows;
  for (std::int64_t b = 0; b < kBatch; ++b)
    for (std::int64_t h = 0; h < kHeads; ++h)
      for (std::int64_t i = 0; i < kSq; ++i) {
        std::vector<double> o(std::size_t(kDim) + 1);
        double sum = 0;
        for (std::int64_t j = 0; j < kSkv; ++j) {
          const std::int64_t key = ((b * kKvHeads + h / 2) * kSkv + j) * kDim;
          double x = 0;
          for (std::int64_t d = 0; d < kDim; ++d)
            x += double(q[std::size_t(((b * kHeads + h) * kSq + i) * kDim + d)]) *
                 double(k[std::size_t(key + d)]);
          const double weight = std::exp(0.4 * x);
          sum += weight;
          for (std::int64_t d = 0; d < kDim; ++d)
            o[std::size_t(d)] += weight * double(v[std::size_t(key + d)]);
        }
        for (double& value : o) value /= sum;
        o.back() = std::log(sum);
        rows.insert(rows.end(), o.begin(), o.end());
      }
  return rows;
}

// Every part by a call of its own, in place among the parts; then the merge.
void check_merge(Session& s, bool parts_outermost) {
  attnfuse_tensor q = s.tensor("q", {kBatch, kHeads, kSq, kDim}),
                  k = s.tensor("k", {kBatch, kKvHeads, kSkv, kDim}),
                  v = s.tensor("v", {kBatch, kKvHeads, kSkv, kDim});
  std::vector<std::vector<float>> values;
  for (const attnfuse_tensor* tensor : {&q, &k, &v}) {
    values.push_back(filled(std::size_t(tensor->shape[0] * tensor->strides[0]), double(values.size())));
    REQUIRE(attnfuse_upload(s.device, tensor->data, 0, values.back().data(), values.back().size() * 4) ==
            ATTNFUSE_OK);
  }
  const std::int32_t axis = parts_outermost ? 0 : 1;
  std::vector<std::int64_t> shape = {kBatch, kHeads, kSq};
  shape.insert(shape.begin() + axis, kParts);
  attnfuse_tensor lse_parts = s.tensor("lse_parts", shape);
  shape.push_back(kDim);
  attnfuse_tensor o_parts = s.tensor("o_parts", shape);
  for (std::int64_t part = 0; part < kParts; ++part) {
    const std::vector<attnfuse_tensor> tensors = {
        q, keys(k, kEnds[part], kEnds[part + 1]), keys(v, kEnds[part], kEnds[part + 1]),
        slice(o_parts, "o", axis, part), slice(lse_parts, "lse", axis, part)};
    const attnfuse_call call = call_of(tensors);
    REQUIRE_MESSAGE(attnfuse_launch(s.program, &call) == ATTNFUSE_OK, last_error());
  }
  if (parts_outermost)  // a merge has the batch first
    for (attnfuse_tensor* tensor : {&o_parts, &lse_parts}) {
      std::swap(tensor->shape[0], tensor->shape[1]);
      std::swap(tensor->strides[0], tensor->strides[1]);
    }
  const attnfuse_tensor o = s.tensor("o", {kBatch, kHeads, kSq, kDim}),
                        lse = s.tensor("lse", {kBatch, kHeads, kSq});
  const std::vector<attnfuse_tensor> tensors = {lse, o_parts, o, lse_parts};  // in any order
  const attnfuse_call call = call_of(tensors);
  REQUIRE_MESSAGE(attnfuse_merge(s.program, &call) == ATTNFUSE_OK, last_error());
  REQUIRE(attnfuse_synchronize(s.device) == ATTNFUSE_OK);
  const std::size_t rows = std::size_t(kBatch * kHeads * kSq);
  const std::vector<float> got = s.read(o, rows * std::size_t(kDim)), got_lse = s.read(lse, rows);
  const std::vector<double> wanted = expected(values[0], values[1], values[2]);
  for (std::size_t row = 0; row < rows; ++row) {
    const double* of_row = &wanted[row * std::size_t(kDim + 1)];
    for (std::size_t d = 0; d < std::size_t(kDim); ++d)
      CHECK(double(got[row * std::size_t(kDim) + d]) == doctest::Approx(of_row[d]).epsilon(1e-4));
    CHECK(double(got_lse[row]) == doctest::Approx(of_row[kDim]).epsilon(1e-5));
  }
}

}  // namespace

TEST_CASE("calls over parts of the keys merge to softmax over all of them") {
  for (const char* target : {"hip-cpu:gfx942", "spirv"})
    for (const bool parts_outermost : {false, true}) {
      CAPTURE(target);
      CAPTURE(parts_outermost);
      Session session(target);
      if (session.program) check_merge(session, parts_outermost);
    }
}

TEST_CASE("a part without keys changes nothing, whatever its output holds") {
  for (const char* target : {"hip-cpu:gfx942", "spirv"}) {
    CAPTURE(target);
    Session s(target);
    if (!s.program) continue;
    const attnfuse_tensor o_parts = s.tensor("o_parts", {1, 3, kHeads, kSq, kDim}),
                          lse_parts = s.tensor("lse_parts", {1, 3, kHeads, kSq}),
                          o = s.tensor("o", {1, kHeads, kSq, kDim}), lse = s.tensor("lse", {1, kHeads, kSq});
    const std::size_t rows = std::size_t(kHeads * kSq), elements = rows * std::size_t(kDim);
    std::vector<float> values(3 * elements, std::numeric_limits<float>::quiet_NaN()),
        logs(3 * rows, -std::numeric_limits<float>::infinity());
    const std::vector<float> own = filled(elements, 0), own_logs = filled(rows, 1);
    std::copy(own.begin(), own.end(), values.begin() + std::ptrdiff_t(elements));
    std::copy(own_logs.begin() + 1, own_logs.end(), logs.begin() + std::ptrdiff_t(rows) + 1);
    REQUIRE(attnfuse_upload(s.device, o_parts.data, 0, values.data(), values.size() * 4) == ATTNFUSE_OK);
    REQUIRE(attnfuse_upload(s.device, lse_parts.data, 0, logs.data(), logs.size() * 4) == ATTNFUSE_OK);
    const std::vector<attnfuse_tensor> tensors = {o_parts, lse_parts, o, lse};
    const attnfuse_call call = call_of(tensors);
    REQUIRE_MESSAGE(attnfuse_merge(s.program, &call) == ATTNFUSE_OK, last_error());
    REQUIRE(attnfuse_synchronize(s.device) == ATTNFUSE_OK);
    const std::vector<float> got = s.read(o, elements), got_lse = s.read(lse, rows);
    // The first row has keys in no part.
    for (std::size_t d = 0; d < std::size_t(kDim); ++d) CHECK(got[d] == 0);
    CHECK(got_lse[0] == -std::numeric_limits<float>::infinity());
    for (std::size_t n = std::size_t(kDim); n < elements; ++n) CHECK(got[n] == own[n]);
    for (std::size_t row = 1; row < rows; ++row) CHECK(got_lse[row] == own_logs[row]);
  }
}

TEST_CASE("merges that make no sense are refused with words") {
  Session s("hip-cpu:gfx942");
  if (!s.program) return;
  std::vector<attnfuse_tensor> tensors = {
      s.tensor("o_parts", {kBatch, 2, kHeads, kSq, kDim}), s.tensor("lse_parts", {kBatch, 2, kHeads, kSq}),
      s.tensor("o", {kBatch, kHeads, kSq, kDim}), s.tensor("lse", {kBatch, kHeads, kSq})};
  attnfuse_call call = call_of(tensors);
  CHECK(attnfuse_merge(nullptr, &call) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() == "attnfuse_merge: program is null");
  CHECK(attnfuse_merge(s.program, nullptr) == ATTNFUSE_BAD_ARGUMENT);
  CHECK(last_error() == "attnfuse_merge: call is null");
  --call.tensor_count;
  CHECK(attnfuse_merge(s.program, &call) == ATTNFUSE_BAD_TENSOR);
  CHECK(last_error().find("writes the tensor 'lse'") != std::string::npos);
  call.tensor_count = 4;
  const auto refused = [&](std::size_t n, auto change, const char* words) {
    const attnfuse_tensor kept = tensors[n];
    change(tensors[n]);
    CHECK(attnfuse_merge(s.program, &call) == ATTNFUSE_BAD_TENSOR);
    CHECK_MESSAGE(last_error().find(words) != std::string::npos, last_error());
    tensors[n] = kept;
  };
  using T = attnfuse_tensor;
  refused(1, [](T& t) { t.shape[1] = 3; }, "tensor 'lse_parts' has shape [2, 3, 4, 3]: 2 is 3 here");
  refused(0, [](T& t) { t.dtype = ATTNFUSE_F16; }, "'o_parts' is f16, the program declares f32");
  refused(0, [](T& t) { t.name = "parts"; }, "program 'part' needs the tensor 'o_parts'");
  refused(2, [](T& t) { t.strides[0] = 0; }, "writes elements over each other");
  refused(3, [](T& t) { t.data = nullptr; }, "tensor 'lse' is at 0x0");

  Session other("hip-cpu:gfx942", "attention gates { heads 4 head_dim 16 dtype f32 normalize sigmoid }");
  REQUIRE(other.program);
  CHECK(attnfuse_merge(other.program, &call) == ATTNFUSE_BAD_PROGRAM);
  CHECK(last_error().find("outputs of program 'gates' over parts of the keys cannot be merged") !=
        std::string::npos);
}
