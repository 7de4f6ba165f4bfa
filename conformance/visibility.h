// Which key slots a program's mask lets queries see, by evaluating the predicate everywhere.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse::conformance {

enum class Seen : std::uint8_t { by_none, by_some, by_all };

class Visibility {
 public:
  Visibility(const Graph& graph, const HostTensors& inputs, const Sizes& sizes);

  // (b, kv head, j) over all slots.
  void for_each_slot(
      const std::function<void(std::int64_t b, std::int64_t g, std::int64_t j, Seen seen)>& visit) const;
  bool allows(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const;

 private:
  const Graph& graph_;
  const HostTensors& inputs_;
  Sizes sizes_;
  NodeId mask_;
};

// An element of a captured or constant tensor at clamped indices.
double clamped_element(const Graph& graph, const HostTensors& inputs, TensorId tensor,
                       std::span<const std::int64_t> index);

}  // namespace attnfuse::conformance
