// The pre-pass on every target: emitted, and assembled where the assembler is.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "backends/backend.h"
#include "frontend/parser.h"
#include "passes/rotation.h"

namespace attnfuse {
namespace {

Graph passed(const std::string& body, DType dtype) {
  const std::string text =
      fmt::format("attention t {{ heads 6 kv_heads 3 head_dim 64 dtype {} {} }}", name(dtype), body);
  auto graph = parse_one(text);
  REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), text));
  auto result = run_graph_passes(*graph);
  REQUIRE(result.ok());
  return std::move(result).value();
}

constexpr const char* kBodies[] = {
    "query rope(theta = 10000) key rope(theta = 10000)",
    "query rope(theta = 10000, pairs = interleaved) key rope(theta = 10000, dims = 24)",
    "param at : i32[batch, skv] query x * (1 + h) key rope(theta = 10000, position = at[b, j])",
    "param w : f32[head_dim] query norm(weight = w) query rope key rope(dims = 24) key norm(layer)",
};

}  // namespace

TEST_CASE("pre-passes of every kind are emitted and assembled for every target") {
  for (const Target& target : all_targets()) {
    const Backend* backend = find_backend(target.backend);
    bool has_assembler = target.backend != "hip-cpu";  // which compiles for seconds
    for (const char* body : kBodies)
      for (DType dtype : {DType::f16, DType::f32})
        for (TensorRole role : {TensorRole::query, TensorRole::key})
          for (int vector_bytes : {16, size_in_bytes(dtype)}) {
            const Graph graph = passed(body, dtype);
            INFO(target.name, " ", name(dtype), " ", name(role), " ", vector_bytes, " bytes: ", body);
            const Schedule schedule = transform_schedule(graph.info(), role, target, vector_bytes);
            const auto program = lower_transform(graph, role, target, schedule);
            REQUIRE(program.ok());
            CHECK(fits(program->footprint, target));
            const auto source = backend->emit(*program);
            REQUIRE(source.ok());
            const bool one_of_each =
                body == kBodies[0] && role == TensorRole::key && dtype == DType::f16 && vector_bytes == 16;
            if (!has_assembler || !one_of_each) continue;
            const auto binary = backend->assemble(*source, target);
            if (!binary && binary.errors()[0].code == "toolkit.missing") {
              has_assembler = false;
              continue;
            }
            REQUIRE_MESSAGE(binary.ok(), render(binary.errors()), source->text);
            CHECK(binary->resources.spill_bytes <= 0);
          }
  }
}

TEST_CASE("a pre-pass moves whole chunks and computes an angle once for all heads of a thread") {
  const Graph graph = passed(kBodies[0], DType::f16);
  const Target target = all_targets().front();
  const auto program = lower_transform(graph, TensorRole::key, target,
                                       transform_schedule(graph.info(), TensorRole::key, target, 16));
  REQUIRE(program.ok());
  const auto source = find_backend(target.backend)->emit(*program);
  REQUIRE(source.ok());
  const std::string kernel = source->text.substr(source->text.find(program->name + "("));
  const auto count = [&](const char* part) {
    int found = 0;
    for (std::size_t at = kernel.find(part); at != std::string::npos; at = kernel.find(part, at + 1)) ++found;
    return found;
  };
  CHECK(count("af_cos(") == 1);
  CHECK(count("af_sin(") == 1);
  CHECK(count("af_load_chunk_f16(") == 2);
  CHECK(count("af_store_chunk_f16(") == 2);
}

}  // namespace attnfuse
