#include <doctest/doctest.h>

#include "runtime/reference.h"
#include "runtime/test_program.h"

using namespace attnfuse;

namespace {

Graph program() {
  Graph graph({"plain", 4, 2, 8, 16, DType::f16, {}});
  const auto add = [&](const char* name, DType dtype, TensorRole role, std::vector<Extent> shape) {
    graph.add_tensor(testing::declared(name, dtype, role, std::move(shape)));
  };
  add("q", DType::f16, TensorRole::query, {{Size::batch}, {Size::heads}, {Size::sq}, {Size::head_dim}});
  add("k", DType::f16, TensorRole::key, {{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::head_dim}});
  add("v", DType::f16, TensorRole::value, {{Size::batch}, {Size::kv_heads}, {Size::skv}, {Size::v_head_dim}});
  add("bias", DType::f32, TensorRole::captured, {{Size::heads}, {std::int64_t(3)}});
  add("table", DType::f32, TensorRole::constant, {{Size::head_dim}});
  return graph;
}

std::map<std::string, TensorLayout> good() {
  return {{"q", TensorLayout::contiguous(DType::f16, {2, 4, 5, 8})},
          {"k", TensorLayout::contiguous(DType::f16, {2, 2, 7, 8})},
          {"v", TensorLayout::contiguous(DType::f16, {2, 2, 7, 16})},
          {"bias", TensorLayout{DType::f32, {4, 3}, {0, 0}}}};
}

std::string problem(const std::map<std::string, TensorLayout>& inputs) {
  const auto sizes = check_inputs(program(), inputs);
  return sizes.ok() ? "none" : render(sizes.errors());
}

}  // namespace

TEST_CASE("good inputs give the sizes of the call") {
  const auto sizes = check_inputs(program(), good());
  REQUIRE(sizes.ok());
  CHECK(sizes->batch == 2);
  CHECK(sizes->sq == 5);
  CHECK(sizes->skv == 7);
}

TEST_CASE("each mistake in the inputs is named with the value, the limit and the fix") {
  auto inputs = good();
  inputs.erase("bias");
  CHECK(problem(inputs) ==
        "error[input.missing]: program 'plain' needs the tensor 'bias'\n"
        "  fix: supply 'bias' with dtype f32 and shape [heads, 3]");

  inputs = good();
  inputs["k"].dtype = DType::bf16;
  CHECK(problem(inputs) ==
        "error[input.dtype]: tensor 'k' is bf16, the program declares f16\n  fix: convert it to f16");

  inputs = good();
  inputs["v"] = TensorLayout::contiguous(DType::f16, {2, 2, 6, 16});
  CHECK(
      problem(inputs) ==
      "error[input.shape]: tensor 'v' has shape [2, 2, 6, 16]: skv is 6 here, but 7 according to tensor 'k'\n"
      "  fix: give it the shape [batch, kv_heads, skv, v_head_dim]");

  inputs = good();
  inputs["q"] = TensorLayout::contiguous(DType::f16, {2, 8, 5, 8});
  CHECK(problem(inputs) ==
        "error[input.shape]: tensor 'q' has shape [2, 8, 5, 8]: heads is 8 here, but 4 according to the "
        "program\n"
        "  fix: give it the shape [batch, heads, sq, head_dim]");

  inputs = good();
  inputs["q"] = TensorLayout::contiguous(DType::f16, {4, 5, 8});
  CHECK(problem(inputs) ==
        "error[input.shape]: tensor 'q' has shape [4, 5, 8]: 3 dimensions, the program declares 4\n"
        "  fix: give it the shape [batch, heads, sq, head_dim]");

  inputs = good();
  inputs["q"].strides[3] = 2;
  CHECK(problem(inputs) ==
        "error[input.stride]: tensor 'q' has strides [160, 40, 8, 2]: the last one must be 1, not 2\n"
        "  fix: make the last axis contiguous");

  inputs = good();
  inputs["table"] = TensorLayout::contiguous(DType::f32, {8});
  CHECK(problem(inputs) ==
        "error[input.unknown]: program 'plain' declares no tensor 'table'\n  fix: remove it, or declare it "
        "with param");
}

TEST_CASE("sizes and strides that no memory can hold are refused before any arithmetic overflows") {
  auto inputs = good();
  inputs["bias"].strides = {std::int64_t(1) << 62, std::int64_t(1) << 62};
  CHECK(problem(inputs).find("input.stride") != std::string::npos);
  inputs = good();
  inputs["bias"].strides = {-1, 1};
  CHECK(problem(inputs).find("-1 at dimension 0 is negative") != std::string::npos);
  inputs = good();
  inputs["bias"].strides = {1};
  CHECK(problem(inputs).find("1 strides for 2 dimensions") != std::string::npos);
  inputs = good();
  inputs["q"].shape[2] = std::int64_t(1) << 40;
  CHECK(problem(inputs).find("outside 0 .. 2147483647") != std::string::npos);
  inputs = good();
  inputs["q"].shape[0] = -2;
  CHECK(problem(inputs).find("-2 at dimension 0 is outside") != std::string::npos);
}

TEST_CASE("all mistakes are reported together") {
  auto inputs = good();
  inputs.erase("q");
  inputs["bias"].dtype = DType::f16;
  inputs["extra"] = inputs["k"];
  const auto sizes = check_inputs(program(), inputs);
  REQUIRE(!sizes.ok());
  CHECK(sizes.errors().size() == 3);
}

TEST_CASE("the reference refuses a tensor with fewer bytes than its layout spans") {
  HostTensors tensors;
  for (const auto& [name, layout] : good()) tensors[name] = HostTensor::zeros(layout);
  tensors["v"].bytes.pop_back();
  const auto outputs = reference(program(), tensors);
  REQUIRE(!outputs.ok());
  CHECK(outputs.errors()[0].code == "input.bytes");
}

namespace {

Result<Sizes> sizes_of(const Storage& storage, const std::map<std::string, TensorLayout>& inputs) {
  return check_inputs(program().with_storage(storage), inputs);
}
std::map<std::string, TensorLayout> ragged() {
  return {{"q", TensorLayout::contiguous(DType::f16, {4, 11, 8})},
          {"k", TensorLayout::contiguous(DType::f16, {2, 17, 8})},
          {"v", TensorLayout::contiguous(DType::f16, {2, 17, 16})},
          {"bias", TensorLayout::contiguous(DType::f32, {4, 3})},
          {"cu_seqlens_q", TensorLayout::contiguous(DType::i32, {4})},
          {"cu_seqlens_k", TensorLayout::contiguous(DType::i32, {4})}};
}
std::map<std::string, TensorLayout> paged() {
  return {{"q", TensorLayout::contiguous(DType::f16, {3, 4, 5, 8})},
          {"k", TensorLayout::contiguous(DType::f16, {9, 2, 16, 8})},
          {"v", TensorLayout::contiguous(DType::f16, {9, 2, 16, 16})},
          {"bias", TensorLayout::contiguous(DType::f32, {4, 3})},
          {"page_table", TensorLayout::contiguous(DType::i32, {3, 6})},
          {"seqused_k", TensorLayout::contiguous(DType::i32, {3})}};
}

}  // namespace

TEST_CASE("sequences that only the device knows are bounded by what holds them") {
  const auto packed = sizes_of({.ragged = true, .page_size = {}}, ragged());
  REQUIRE_MESSAGE(packed, render(packed.errors()));
  CHECK(*packed == Sizes{3, 11, 17, 11, 17});
  const auto in_pages = sizes_of({.ragged = false, .page_size = 16}, paged());
  REQUIRE_MESSAGE(in_pages, render(in_pages.errors()));
  CHECK(*in_pages == Sizes{3, 5, 96});
}

TEST_CASE("tables of the wrong shape or type, and missing ones, are named") {
  const Storage packed{.ragged = true, .page_size = {}}, in_pages{.ragged = false, .page_size = 16};
  const auto first = [](const Result<Sizes>& sizes) {
    return sizes.ok() ? std::string("none") : render(sizes.errors()[0]);
  };
  auto inputs = ragged();
  inputs.erase("cu_seqlens_k");
  CHECK(first(sizes_of(packed, inputs)) ==
        "error[input.missing]: program 'plain' needs the tensor 'cu_seqlens_k'\n"
        "  fix: supply 'cu_seqlens_k' with dtype i32 and shape [batch + 1]");
  inputs = ragged();
  inputs["cu_seqlens_k"] = TensorLayout::contiguous(DType::i32, {3});
  CHECK(first(sizes_of(packed, inputs)) ==
        "error[input.shape]: tensor 'cu_seqlens_k' has shape [3]: batch + 1 is 3 here, but 4 according to "
        "tensor 'cu_seqlens_q'\n  fix: give it the shape [batch + 1]");
  inputs["cu_seqlens_q"] = inputs["cu_seqlens_k"] = TensorLayout::contiguous(DType::i32, {0});
  CHECK(first(sizes_of(packed, inputs)).find("error[input.shape]") != std::string::npos);
  inputs = paged();
  inputs["page_table"].dtype = DType::f32;
  CHECK(first(sizes_of(in_pages, inputs)).find("error[input.dtype]: tensor 'page_table' is f32") !=
        std::string::npos);
  inputs = paged();
  inputs["page_table"] = TensorLayout::contiguous(DType::i32, {18});
  CHECK(first(sizes_of(in_pages, inputs)).find("1 dimensions, the program declares 2") != std::string::npos);
  inputs = paged();
  inputs["v"] = TensorLayout::contiguous(DType::f16, {9, 2, 8, 16});
  CHECK(first(sizes_of(in_pages, inputs)).find("16 is 8 here, but 16 according to the program") !=
        std::string::npos);
  CHECK(first(sizes_of({}, paged())).find("error[input.shape]") != std::string::npos);
}
