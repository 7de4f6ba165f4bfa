#include "passes/group_queries.h"

#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "frontend/parser.h"
#include "ir/analysis.h"
#include "passes/passes.h"
#include "runtime/reference.h"

namespace attnfuse {
namespace {

Graph parsed(const std::string& text) {
  auto graph = parse_one(text);
  REQUIRE_MESSAGE(graph.ok(), (graph ? "" : render(graph.errors(), text)));
  return std::move(graph).value();
}

// Numbers that differ everywhere and are the same in both layouts: a function of the flat position.
HostTensor filled(DType dtype, std::vector<std::int64_t> shape, double phase) {
  HostTensor tensor = HostTensor::zeros(TensorLayout::contiguous(dtype, std::move(shape)));
  std::vector<std::int64_t> at(tensor.layout.shape.size(), 0);
  std::int64_t count = 1;
  for (std::int64_t extent : tensor.layout.shape) count *= extent;
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t rest = n;
    for (std::size_t axis = at.size(); axis-- > 0;) {
      at[axis] = rest % tensor.layout.shape[axis];
      rest /= tensor.layout.shape[axis];
    }
    tensor.set(at, std::sin(phase + 0.37 * double(n)));
  }
  return tensor;
}

}  // namespace

TEST_CASE("heads that share keys as rows of one head compute the same") {
  const Graph graph = parsed(
      "attention t { heads 6 kv_heads 2 head_dim 16 dtype f32 param slope : f32[heads] param z : f32[batch, "
      "heads, sq] "
      "query rope(theta = 100) key rope(theta = 100) score scale(0.25) score x + slope[h] * (j - i) + z[b, "
      "h, i] "
      "mask causal normalize softmax(sink = slope[h]) }");
  const Graph grouped = group_queries(graph);
  CHECK(verify(grouped).empty());
  CHECK(grouped.info().heads == 2);
  for (int heads = 2; heads <= 16; ++heads) {
    const Graph many =
        parsed(fmt::format("attention t {{ heads {} kv_heads 1 head_dim 16 param slope : f32[heads] "
                           "normalize softmax(sink = slope[h]) }}",
                           heads));
    CHECK(group_queries(many).tensors().at(3).shape == std::vector{Extent{std::int64_t(heads)}});
  }
  CHECK(has_query_groups(graph));
  CHECK_FALSE(has_query_groups(grouped));

  HostTensors inputs;
  inputs.emplace("k", filled(DType::f32, {3, 2, 9, 16}, 1));
  inputs.emplace("v", filled(DType::f32, {3, 2, 9, 16}, 2));
  inputs.emplace("slope", filled(DType::f32, {6}, 3));
  inputs.emplace("z", filled(DType::f32, {3, 6, 1}, 4));
  auto as_rows = inputs;
  inputs.emplace("q", filled(DType::f32, {3, 6, 1, 16}, 5));
  as_rows.emplace("q", filled(DType::f32, {3, 2, 3, 16}, 5));
  const auto wanted = reference(graph, inputs, Rounding::none);
  const auto found = reference(grouped, as_rows, Rounding::none);
  REQUIRE(wanted.ok());
  REQUIRE(found.ok());
  CHECK(found->o == wanted->o);
  CHECK(found->lse == wanted->lse);
}

}  // namespace attnfuse
