// A program split into pre-passes and the rest means what it meant, by the reference.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis.h"
#include "passes/random_expression.h"
#include "passes/transform.h"
#include "runtime/reference.h"
#include "runtime/test_program.h"

namespace attnfuse {
namespace {

using testing::Program;

constexpr TensorRole kRoles[] = {TensorRole::query, TensorRole::key, TensorRole::value};

std::int64_t partner_of(const Partner& partner, std::int64_t d) {
  if (d >= partner.count) return d;
  if (partner.pairs == RotaryPairs::interleaved) return d ^ 1;
  return d < partner.count / 2 ? d + partner.count / 2 : d - partner.count / 2;
}

// What a pre-pass leaves: every element of the role's expression, by its definition.
HostTensor transformed(const Graph& graph, TensorRole role, const HostTensors& inputs, const Sizes& sizes) {
  const NodeId root = transform_of(graph, role);
  const HostTensor& source = inputs.at(graph.tensor(tensor_of(graph, role)).name);
  HostTensor result = HostTensor::zeros(TensorLayout::contiguous(source.layout.dtype, source.layout.shape));
  EvaluateContext context;
  context.sizes[std::size_t(Size::batch)] = sizes.batch;
  context.sizes[std::size_t(Size::sq)] = sizes.sq;
  context.sizes[std::size_t(Size::skv)] = sizes.skv;
  context.element = [&](TensorId id, std::span<const std::int64_t> index) {
    return inputs.at(graph.tensor(id).name).get(index);
  };
  const auto& shape = source.layout.shape;
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t h = 0; h < shape[1]; ++h)
      for (std::int64_t s = 0; s < shape[2]; ++s)
        for (std::int64_t d = 0; d < shape[3]; ++d) {
          const std::int64_t place[] = {b, h, h, s, s, d};
          std::ranges::copy(place, context.index);
          context.leaf = [&](NodeId id) {
            const auto* partner = as<Partner>(graph.node(id));
            const std::int64_t at[] = {b, h, s, partner ? partner_of(*partner, d) : d};
            return source.get(at);
          };
          const std::int64_t at[] = {b, h, s, d};
          result.set(at, evaluate(graph, root, context));
        }
  return result;
}

// Random expressions of the element, its partner, positions and a captured table in all three stages.
Graph random_program(std::uint32_t seed, HostTensors& inputs, const Sizes& sizes) {
  Program program(testing::small());
  Graph& graph = program.graph;
  RandomExpression random(graph, seed);
  const TensorId gain =
      graph.add_tensor(testing::declared("gain", DType::f32, TensorRole::captured, {{Size::head_dim}}));
  inputs = testing::inputs_for(graph.info(), sizes);
  inputs["gain"] = testing::filled(DType::f32, {graph.info().head_dim}, seed);
  for (NodeId* stage : {&program.q, &program.k, &program.v}) {
    const bool query = stage == &program.q;
    const RotaryPairs pairs = random.chance(50) ? RotaryPairs::half : RotaryPairs::interleaved;
    const NodeId d = graph.index(Axis::d), position = graph.index(query ? Axis::i : Axis::j);
    random.f32_leaves = {*stage, graph.add(Partner{pairs, 8}, {*stage}), graph.add(Gather{gain}, {d})};
    random.i32_leaves = {d, position, graph.add(SizeOf{Size::skv}), graph.index(query ? Axis::h : Axis::g)};
    // Its own element always counts, and values stay moderate.
    const NodeId wild = graph.apply(ScalarOp::tanh, {random.f32(4)});
    *stage = graph.apply(ScalarOp::add, {*stage, wild});
  }
  return program.finish(program.scores(),
                        graph.apply(ScalarOp::ile, {graph.index(Axis::j), graph.index(Axis::i)}));
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t n = 0; n < a.size(); ++n)
    if (a[n] != b[n]) worst = std::max(worst, std::abs(a[n] - b[n]));
  return worst;
}

}  // namespace

TEST_CASE("pre-passes and the attention that is left give what the whole program gives") {
  const Sizes sizes{2, 9, 11};
  int legal = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    INFO("seed ", seed);
    HostTensors inputs;
    const Graph whole = random_program(seed, inputs, sizes);
    if (!verify(whole).empty()) continue;  // divides by a zero
    ++legal;
    std::vector<TensorRole> roles;
    for (unsigned r = 0; r < 3; ++r)
      if ((seed >> r) & 1) roles.push_back(kRoles[r]);
    const Graph split = split_transform(whole, roles);
    REQUIRE_MESSAGE(verify(split).empty(), render(verify(split)));
    HostTensors passed = inputs;
    for (TensorRole role : roles) {
      CHECK(!has_transform(split, role));
      passed[whole.tensor(tensor_of(whole, role)).name] = transformed(whole, role, inputs, sizes);
    }
    const auto wanted = reference(whole, inputs), got = reference(split, passed);
    REQUIRE(wanted.ok());
    REQUIRE_MESSAGE(got.ok(), render(got.errors()));
    CHECK(difference(got->o, wanted->o) < 1e-5);
    CHECK(difference(got->lse, wanted->lse) < 1e-4);
  }
  CHECK(legal >= 30);
}

TEST_CASE("roles that are not split keep their expressions") {
  HostTensors inputs;
  const Graph whole = random_program(3, inputs, {1, 3, 3});
  const TensorRole key = TensorRole::key;
  const Graph split = split_transform(whole, {&key, 1});
  CHECK(has_transform(split, TensorRole::query));
  CHECK(!has_transform(split, TensorRole::key));
  CHECK(has_transform(split, TensorRole::value));
}

}  // namespace attnfuse
