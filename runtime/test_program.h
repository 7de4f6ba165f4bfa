// Programs and inputs for tests of this folder, built node by node: no frontend involved.
#pragma once

#include <random>

#include "ir/graph.h"
#include "runtime/tensor.h"

namespace attnfuse::testing {

inline TensorInfo declared(std::string name, DType dtype, TensorRole role, std::vector<Extent> shape) {
  return {std::move(name), dtype, role, std::move(shape), false, {}, {}};
}

// A program under construction, node by node.
struct Program {
  explicit Program(ProgramInfo info) : graph(std::move(info)) {
    const DType dtype = graph.info().dtype;
    const auto input = [&](const char* name, TensorRole role, Size heads, Size length, Size dim) {
      return graph.add(
          Input{graph.add_tensor(declared(name, dtype, role, {{Size::batch}, {heads}, {length}, {dim}}))});
    };
    q = input("q", TensorRole::query, Size::heads, Size::sq, Size::head_dim);
    k = input("k", TensorRole::key, Size::kv_heads, Size::skv, Size::head_dim);
    v = input("v", TensorRole::value, Size::kv_heads, Size::skv, Size::v_head_dim);
  }
  NodeId scores() { return graph.add(Scores{}, {q, k}); }
  NodeId op(ScalarOp op, NodeId a, NodeId b) { return graph.apply(op, {a, b}); }
  NodeId all() { return graph.constant(1, ValueType::boolean); }
  NodeId captured(const char* name, DType dtype, std::vector<Extent> shape,
                  std::initializer_list<NodeId> indices) {
    return graph.add(Gather{graph.add_tensor(declared(name, dtype, TensorRole::captured, std::move(shape)))},
                     indices);
  }
  Graph finish(NodeId score, NodeId mask, NodeId sink = {}, NormalizeKind kind = NormalizeKind::softmax) {
    const NodeId p = sink.valid() ? graph.add(Normalize{NormalizeKind::softmax_sink}, {score, mask, sink})
                                  : graph.add(Normalize{kind}, {score, mask});
    graph.add(Output{"o"}, {graph.add(Attend{}, {p, v})});
    graph.add(Output{"lse"}, {graph.add(LogSumExp{}, {p})});
    return graph;
  }

  Graph graph;
  NodeId q, k, v;
};

inline ProgramInfo small(DType dtype = DType::f32) { return {"small", 4, 2, 8, 16, dtype, {}}; }

inline HostTensor filled(DType dtype, std::vector<std::int64_t> shape, unsigned seed, double scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  HostTensor tensor = HostTensor::zeros(TensorLayout::contiguous(dtype, std::move(shape)));
  const auto size = std::size_t(size_in_bytes(dtype));
  for (std::size_t n = 0; n < tensor.bytes.size(); n += size)
    store_element(dtype, &tensor.bytes[n], normal(random));
  return tensor;
}

inline HostTensors inputs_for(const ProgramInfo& info, Sizes sizes) {
  return {{"q", filled(info.dtype, {sizes.batch, info.heads, sizes.sq, info.head_dim}, 1)},
          {"k", filled(info.dtype, {sizes.batch, info.kv_heads, sizes.skv, info.head_dim}, 2)},
          {"v", filled(info.dtype, {sizes.batch, info.kv_heads, sizes.skv, info.v_head_dim}, 3)}};
}

}  // namespace attnfuse::testing
