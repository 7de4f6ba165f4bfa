// differential(lambda): differential attention. A second score head, all of the first's query, key, score,
// mask, normalize and weights lines on the tensors q2 and k2, weighs the same values, and lambda times its
// result is taken from the first's. What the layer does after that are output lines: norm, scale.
#include "frontend/arguments.h"
#include "frontend/blocks/blocks.h"
#include "ir/algorithm.h"

namespace attnfuse {
namespace {

constexpr Stage kStages[] = {Stage::output};
constexpr Parameter kParameters[] = {
    {"lambda", ParameterKind::per_head, Presence::required,
     "the second head's part: a number, a tensor f32[heads] or an expression of b and h"},
};

// The same nodes on the second head's tensors; what does not depend on them is shared.
NodeId second_head(Graph& graph, NodeId attend) {
  const TensorId query = graph.find_tensor("q2"), key = graph.find_tensor("k2");
  std::map<NodeId, NodeId> seconds;
  for (NodeId id : cone(graph, {attend})) {
    const Node node = graph.node(id);
    std::vector<NodeId> operands = graph.operands(id);
    bool differs = false;
    for (NodeId& operand : operands)
      if (const auto found = seconds.find(operand); found != seconds.end()) {
        operand = found->second;
        differs = true;
      }
    if (differs) seconds[id] = graph.add(node.kind, operands, node.where);
    const auto* input = as<Input>(node);
    const TensorRole role = input ? graph.tensor(input->tensor).role : TensorRole::captured;
    if (role == TensorRole::query) seconds[id] = graph.add(Input{query}, {}, node.where);
    if (role == TensorRole::key) seconds[id] = graph.add(Input{key}, {}, node.where);
  }
  return seconds.at(attend);
}

// The weights that a product with the values reads, before weights lines.
NodeId normalize_of(const Graph& graph, NodeId attend) {
  for (NodeId id : elementwise_cone(graph, {graph.operand(attend, 0)}))
    if (as<Normalize>(graph.node(id))) return id;
  return {};
}

Value expand(const BlockInput& input) {
  Graph& graph = input.emitter.graph;
  if (graph.output("lse2").valid()) {
    input.mistake("output.twice", "a program is differential once", "remove one of the lines");
    return input.x;
  }
  const NodeId attend = input.x.node(input.emitter);
  if (as<Attend>(graph.node(attend)) == nullptr) {
    input.mistake("output.order",
                  "differential takes the attention result itself, not what output lines made",
                  "make it the first output line");
    return input.x;
  }
  const NodeId second = second_head(graph, attend), normalize = normalize_of(graph, second);
  if (!normalize.valid()) return input.x;  // the weights do not use the scores, which verify() tells
  const NodeId lse = graph.add(LogSumExp{}, {normalize}, input.where);
  graph.add(Output{"lse2"}, {lse}, input.where);
  const Value other = Value(input.emitter, second) * input.arguments.value("lambda");
  return input.x - other;
}

}  // namespace

constinit const Block kDifferential{
    .name = "differential",
    .stages = kStages,
    .parameters = kParameters,
    .about =
        "Differential attention: a second score head, with queries `q2` and keys `k2` (shaped as `q` and "
        "`k`; "
        "two views of one tensor with twice the heads will do) and all lines of the first, weighs the same "
        "values in the same kernel. The first output line; `norm` and `scale` after it act on the "
        "difference. "
        "`lse` and `max_logit` are the first head's, output `lse2` is the second's; dropout takes the same "
        "weights from both.",
    .math = "o(q, k, v) - lambda * o(q2, k2, v)",
    .latex = "\\big(\\operatorname{softmax}(S_1) - \\lambda_h \\operatorname{softmax}(S_2)\\big) V",
    .source = "Ye et al., Differential Transformer (2024); DiffLlama",
    .score_heads = 2,
    .expand = expand,
};

}  // namespace attnfuse
