// What kernels know of sequences with lengths of their own.
#include <doctest/doctest.h>

#include "frontend/parser.h"
#include "ir/analysis.h"
#include "passes/data_bounds.h"
#include "passes/rotation.h"

namespace attnfuse {
namespace {

Graph program(const std::string& lines) {
  const auto graph = parse_one("attention t { heads 4 kv_heads 2 head_dim 64 dtype f16 " + lines + " }");
  REQUIRE_MESSAGE(graph, render(graph.errors()));
  return *graph;
}

TileProgram lowered(const std::string& lines) {
  Target target;
  target.name = target.title = "test";
  target.units = {MatrixUnit{"fma", {DType::f16, DType::bf16, DType::f32}}};
  auto tiles = compile_to_tiles(program(lines), target);
  REQUIRE_MESSAGE(tiles, render(tiles.errors()));
  return std::move(tiles).value();
}

std::string fields(const TileProgram& program) {
  std::string names;
  for (const ParamField& field : program.params) names += field.name + " ";
  return names;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("ragged programs find their sequence and measure it, paged ones measure its keys") {
  const std::string plain = print(lowered(""));
  CHECK_FALSE(has(plain, "sequences"));
  const std::string packed = print(lowered("storage ragged"));
  for (const char* line : {"sequences ragged", "var b = 0",
                           "let q_begin = ", "let q_first = ", "let sq = ", "let k_first = ", "let skv = "})
    CHECK_MESSAGE(has(packed, line), packed);
  const std::string in_pages = print(lowered("storage paged(16)"));
  CHECK(has(in_pages, "let skv = "));
  CHECK_FALSE(has(in_pages, "let sq = "));
  CHECK_FALSE(has(in_pages, "let q_begin = "));
}

TEST_CASE("ragged tensors have no batch stride, and a call says how many rows there are") {
  const std::string names = fields(lowered("storage ragged"));
  CHECK(has(names, "q_ptr q_stride_h q_stride_s k_ptr k_stride_h k_stride_s "));
  CHECK(has(names, "lse_ptr lse_stride_h lse_stride_s "));
  CHECK(has(names, "cu_seqlens_q_ptr cu_seqlens_q_stride_0 cu_seqlens_k_ptr "));
  CHECK(has(names, "total_q"));
  const std::string paged = fields(lowered("storage paged(16)"));
  CHECK(has(paged, "k_ptr k_stride_b k_stride_h k_stride_s "));
  CHECK(has(paged, "page_table_ptr page_table_stride_0 page_table_stride_1 seqused_k_ptr "));
  CHECK_FALSE(has(paged, "total_q"));
}

TEST_CASE("kernels ahead of attention take ragged rows, and leave keys in pages alone") {
  const Graph turned = program("query rope(theta = 100) key rope(theta = 100)");
  CHECK(split_roles(turned, Rotation::both).size() == 2);
  CHECK(split_roles(turned.with_storage({.ragged = true, .page_size = {}}), Rotation::both).size() == 2);
  const auto paged = split_roles(turned.with_storage({.ragged = true, .page_size = 8}), Rotation::both);
  CHECK(paged == std::vector<TensorRole>{TensorRole::query});
  const Graph documents = program("param ids : i32[batch, skv] mask document(ids)");
  const auto optimized = run_graph_passes(documents);
  REQUIRE(optimized);
  CHECK(has_data_bounds(*optimized));
  CHECK_FALSE(has_data_bounds(optimized->with_storage({.ragged = false, .page_size = 8})));
}

}  // namespace attnfuse
