#include "conformance/visibility.h"

#include <algorithm>

#include "ir/algorithm.h"
#include "ir/analysis.h"

namespace attnfuse::conformance {

Visibility::Visibility(const Graph& graph, const HostTensors& inputs, const Sizes& sizes)
    : graph_(graph), inputs_(inputs), sizes_(sizes) {
  const NodeId normalize = find<Normalize>(graph);
  ATTNFUSE_CHECK(normalize.valid(), "a program without normalize");
  mask_ = graph.operand(normalize, 1);
}

bool Visibility::allows(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const ProgramInfo& info = graph_.info();
  EvaluateContext context;
  const auto set = [&](Axis axis, std::int64_t value) { context.index[std::size_t(axis)] = value; };
  set(Axis::b, b);
  set(Axis::h, h);
  set(Axis::g, h / (info.heads / info.kv_heads));
  set(Axis::i, i);
  set(Axis::j, j);
  const auto size = [&](Size which, std::int64_t value) { context.sizes[std::size_t(which)] = value; };
  size(Size::batch, sizes_.batch);
  size(Size::heads, info.heads);
  size(Size::kv_heads, info.kv_heads);
  size(Size::sq, sizes_.sq);
  size(Size::skv, sizes_.skv);
  size(Size::head_dim, info.head_dim);
  size(Size::v_head_dim, info.v_head_dim);
  context.element = [&](TensorId tensor, std::span<const std::int64_t> index) {
    return clamped_element(graph_, inputs_, tensor, index);
  };
  return evaluate(graph_, mask_, context) != 0;
}

void Visibility::for_each_slot(
    const std::function<void(std::int64_t, std::int64_t, std::int64_t, Seen)>& visit) const {
  const int group = graph_.info().heads / graph_.info().kv_heads;
  for (std::int64_t b = 0; b < sizes_.batch; ++b)
    for (std::int64_t g = 0; g < graph_.info().kv_heads; ++g)
      for (std::int64_t j = 0; j < sizes_.skv; ++j) {
        std::int64_t seen = 0;
        for (std::int64_t h = g * group; h < (g + 1) * group; ++h)
          for (std::int64_t i = 0; i < sizes_.sq; ++i) seen += allows(b, h, i, j);
        visit(b, g, j, seen == 0 ? Seen::by_none : seen == group * sizes_.sq ? Seen::by_all : Seen::by_some);
      }
}

double clamped_element(const Graph& graph, const HostTensors& inputs, TensorId tensor,
                       std::span<const std::int64_t> index) {
  const TensorInfo& info = graph.tensor(tensor);
  ATTNFUSE_CHECK(info.role != TensorRole::constant, "a mask over a compiler's table");
  const HostTensor& host = inputs.at(info.name);
  std::vector<std::int64_t> clamped(index.begin(), index.end());
  for (std::size_t dim = 0; dim < clamped.size(); ++dim)
    clamped[dim] = std::clamp<std::int64_t>(clamped[dim], 0, host.layout.shape[dim] - 1);
  return host.get(clamped);
}

}  // namespace attnfuse::conformance
