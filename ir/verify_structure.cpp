#include <algorithm>
#include <map>

#include "ir/algorithm.h"
#include "ir/score_heads.h"
#include "ir/verify_rules.h"

namespace attnfuse {
namespace {

template <class Kind>
bool uses(const Graph& graph, std::span<const NodeId> nodes) {
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId id) { return as<Kind>(graph.node(id)) != nullptr; });
}

template <class Kind>
void check_count(Report& report, std::span<const NodeId> live, std::string_view what, int least, int most) {
  int count = 0;
  for (NodeId id : live) count += as<Kind>(report.graph.node(id)) ? 1 : 0;
  if (count < least || count > most)
    report.add("program.structure",
               fmt::format("the program has {} {}; it needs {} {}", count, what,
                           least == most ? "exactly" : "at most", most == 1 ? "one" : "two"),
               {});
}

template <class Kind>
void check_operand(Report& report, NodeId id, int position, std::string_view message) {
  const NodeId operand = report.graph.operand(id, position);
  if (!as<Kind>(report.graph.node(operand)))
    report.add("program.structure", std::string(message), report.graph.node(id).where);
}

NormalizeKind kind_of(const Graph& graph, NodeId weights) {
  const auto* normalize = as<Normalize>(graph.node(weights));
  return normalize ? normalize->kind : NormalizeKind::softmax;
}

void check_max_logit(Report& report, NodeId id) {
  check_operand<RowMax>(report, id, 0, "output \"max_logit\" must be the largest score of a row");
  const NodeId value = report.graph.operand(id, 0);
  if (!as<RowMax>(report.graph.node(value))) return;
  const NormalizeKind kind = kind_of(report.graph, report.graph.operand(value, 0));
  if (kind == NormalizeKind::softmax || kind == NormalizeKind::softmax_sink) return;
  report.add("program.output", "output \"max_logit\" is of a softmax; this program normalizes otherwise",
             report.graph.node(id).where, "normalize with softmax, or leave max_logit out");
}

void check_outputs(Report& report) {
  std::map<std::string_view, int> counts{{"o", 0}, {"lse", 0}, {"lse2", 0}, {"max_logit", 0}};
  for (NodeId id : report.graph.outputs()) {
    const Node& node = report.graph.node(id);
    const std::string& name = as<Output>(node)->name;
    const auto count = counts.find(name);
    if (count == counts.end()) {
      report.add("program.output",
                 fmt::format(R"(unknown output "{}"; outputs are "o", "lse", "lse2" and "max_logit")", name),
                 node.where);
      continue;
    }
    ++count->second;
    if (name == "lse" || name == "lse2")
      check_operand<LogSumExp>(report, id, 0,
                               fmt::format("output \"{}\" must be the log-sum-exp of the weights", name));
    if (name == "max_logit") check_max_logit(report, id);
  }
  for (const auto& [name, count] : counts) {
    if (name == "o" && count != 1)
      report.add("program.output", fmt::format("output \"o\" is written {} times; it must be once", count),
                 {});
    if (name != "o" && count > 1)
      report.add("program.output",
                 fmt::format("output \"{}\" is written {} times; it may be once", name, count), {});
  }
}

// A place where expressions stand: what they may depend on and read.
struct Stage {
  std::string_view name;
  ValueType type;
  Axes axes;
  enum class Leaf : std::uint8_t { none, input, scores, weights, result } leaf;  // the x of the stage
  TensorRole input;                                                              // of a leaf that is one
  Size dim;  // length of d, along which transforms and outputs pair and reduce elements

  bool has_dim() const { return leaf == Leaf::input || leaf == Leaf::result; }
};
constexpr Axes kScoreAxes{Axis::b, Axis::h, Axis::i, Axis::j};
constexpr Axes kQueryAxes{Axis::b, Axis::h, Axis::i, Axis::d};
constexpr Axes kKeyAxes{Axis::b, Axis::g, Axis::j, Axis::d};
using Leaf = Stage::Leaf;
constexpr Stage kQuery{"query", ValueType::f32, kQueryAxes, Leaf::input, TensorRole::query, Size::head_dim};
constexpr Stage kKey{"key", ValueType::f32, kKeyAxes, Leaf::input, TensorRole::key, Size::head_dim};
constexpr Stage kValue{"value", ValueType::f32, kKeyAxes, Leaf::input, TensorRole::value, Size::v_head_dim};
constexpr Stage kScore{"score", ValueType::f32, kScoreAxes, Leaf::scores, {}, {}};
constexpr Stage kMask{"mask", ValueType::boolean, kScoreAxes, Leaf::none, {}, {}};
constexpr Stage kSink{"sink", ValueType::f32, {Axis::b, Axis::h, Axis::i}, Leaf::none, {}, {}};
constexpr Stage kWeights{"weights", ValueType::f32, kScoreAxes, Leaf::weights, {}, {}};
constexpr Stage kOutput{"output", ValueType::f32, kQueryAxes, Leaf::result, {}, Size::v_head_dim};

std::string described(const Stage& stage) {
  return fmt::format("{} {} expression", stage.name.starts_with('o') ? "an" : "a", stage.name);
}

void check_partner(Report& report, NodeId id, const Partner& partner, int dim) {
  const Node& node = report.graph.node(id);
  if (!report.graph.node(report.graph.operand(id, 0)).axes.has(Axis::d))
    report.add("rope.axis", "pairs are taken along d, but the value does not depend on d", node.where);
  if (partner.count >= 2 && partner.count <= dim && partner.count % 2 == 0) return;
  report.add(
      "rope.count",
      fmt::format("{} elements are paired; it must be an even number between 2 and {}", partner.count, dim),
      node.where, "rotate a part of the head dim that has whole pairs");
}

// Whether a node of this kind may stand in the stage.
bool allowed(const Graph& graph, const Node& node, const Stage& stage) {
  return std::visit(overloaded{
                        [&](const Input& input) {
                          return stage.leaf == Leaf::input && graph.tensor(input.tensor).role == stage.input;
                        },
                        [](const Constant&) { return true; },
                        [](const SizeOf&) { return true; },
                        [](const Index&) { return true; },
                        [](const Variable&) { return false; },
                        [](const Apply&) { return true; },
                        [](const Gather&) { return true; },
                        [&](const Partner&) { return stage.has_dim(); },
                        [&](const Reduce&) { return stage.has_dim(); },
                        [&](const Scores&) { return stage.leaf == Leaf::scores; },
                        [&](const Normalize&) { return stage.leaf == Leaf::weights; },
                        [&](const Attend&) { return stage.leaf == Leaf::result; },
                        [](const LogSumExp&) { return false; },
                        [](const RowMax&) { return false; },
                        [](const Output&) { return false; },
                        [](const Contract&) { return false; },
                        [](const SumOver&) { return false; },
                        [](const Scatter&) { return false; },
                    },
                    node.kind);
}

std::string described(const Graph& graph, const Node& node) {
  return std::visit(
      overloaded{
          [&](const Input& input) { return fmt::format("tensor \"{}\"", graph.tensor(input.tensor).name); },
          [](const Constant&) { return std::string("a constant"); },
          [](const SizeOf& size) { return fmt::format("size {}", name(size.size)); },
          [](const Index& index) { return fmt::format("index {}", name(index.axis)); },
          [](const Variable& variable) { return fmt::format("variable \"{}\"", variable.name); },
          [](const Apply& apply) { return std::string(info(apply.op).name); },
          [&](const Gather& gather) {
            return fmt::format("tensor \"{}\"", graph.tensor(gather.tensor).name);
          },
          [](const Partner&) { return std::string("a pair along d"); },
          [](const Reduce&) { return std::string("a reduction over d"); },
          [](const Scores&) { return std::string("the score"); },
          [](const Normalize&) { return std::string("the weights"); },
          [](const Attend&) { return std::string("the attention result"); },
          [](const LogSumExp&) { return std::string("the log-sum-exp"); },
          [](const RowMax&) { return std::string("the largest score"); },
          [](const Output&) { return std::string("an output"); },
          [](const Contract&) { return std::string("a product of gradients"); },
          [](const SumOver&) { return std::string("a sum of gradients"); },
          [](const Scatter&) { return std::string("the gradient of a tensor"); },
      },
      node.kind);
}

// What another stage computes.
bool is_result(const Node& node) { return as<Scores>(node) || as<Normalize>(node) || as<Attend>(node); }

// Nodes of the stage: what the root depends on, not going below what may not stand here or is the score.
void check_node(Report& report, NodeId id, const Stage& stage) {
  const Graph& graph = report.graph;
  const Node& node = graph.node(id);
  if (!allowed(graph, node, stage)) {
    report.add("expression.context",
               fmt::format("{} cannot be used in {}", described(graph, node), described(stage)), node.where);
    return;
  }
  if (const auto* partner = as<Partner>(node))
    check_partner(report, id, *partner, *graph.info().size(stage.dim));
  if (is_result(node)) return;
  // Reported where the axis enters.
  if (!node.axes.within(stage.axes) && graph.operands(id).empty())
    report.add("expression.axes",
               fmt::format("{} cannot be used in {}, which may depend on {}", described(graph, node),
                           described(stage), to_string(stage.axes)),
               node.where);
}

void check_stage(Report& report, NodeId root, const Stage& stage) {
  const Node& node = report.graph.node(root);
  if (node.type != stage.type)
    report.add("expression.type",
               fmt::format("{} is {}; it must be {}", described(stage), name(node.type), name(stage.type)),
               node.where);
  std::vector<NodeId> pending{root};
  std::vector<bool> seen(report.graph.size());
  std::vector<NodeId> nodes;
  while (!pending.empty()) {
    const NodeId id = pending.back();
    pending.pop_back();
    if (seen[id.value]) continue;
    seen[id.value] = true;
    nodes.push_back(id);
    const Node& visited = report.graph.node(id);
    if (!allowed(report.graph, visited, stage) || is_result(visited)) continue;
    for (NodeId operand : report.graph.operands(id)) pending.push_back(operand);
  }
  std::ranges::sort(nodes);
  for (NodeId id : nodes) check_node(report, id, stage);
}

// A transformed query, key or value still is one.
void check_transform(Report& report, NodeId root, const Stage& stage) {
  check_stage(report, root, stage);
  if (uses<Input>(report.graph, cone(report.graph, {root}))) return;
  report.add("expression.context", fmt::format("the {} expression does not use x", stage.name),
             report.graph.node(root).where);
}

// Weights are scaled while they are summed: their expression is x times a factor that does not read x.
bool is_multiple(const Graph& graph, NodeId root, NodeId x) {
  if (root == x) return true;
  const auto* apply = as<Apply>(graph.node(root));
  const auto reads = [&](NodeId id) {
    const std::vector<NodeId> read = elementwise_cone(graph, {id});
    return std::ranges::find(read, x) != read.end();
  };
  if (!apply || (apply->op != ScalarOp::mul && apply->op != ScalarOp::div)) return false;
  const NodeId first = graph.operand(root, 0), second = graph.operand(root, 1);
  if (!reads(second)) return is_multiple(graph, first, x);
  return apply->op == ScalarOp::mul && !reads(first) && is_multiple(graph, second, x);
}

void check_weights(Report& report, NodeId root, NodeId normalize) {
  check_stage(report, root, kWeights);
  if (report.found.empty() && !is_multiple(report.graph, root, normalize))
    report.add("expression.weights", "a weights expression must be x times a factor that does not read x",
               report.graph.node(root).where, "multiply x, as in x * select(i == j, 0.5, 1.0)");
}

// Row statistics are those of one head: "lse" and "max_logit" of the first, "lse2" of the second.
void check_statistics(Report& report, const std::vector<ScoreHead>& heads) {
  const Graph& graph = report.graph;
  for (const char* name : {"lse", "lse2", "max_logit"}) {
    const NodeId output = graph.output(name);
    const std::size_t head = std::string_view(name) == "lse2" ? 1 : 0;
    if (!output.valid()) continue;
    if (head >= heads.size() || graph.operand(graph.operand(output, 0), 0) != heads[head].normalize)
      report.add("program.output",
                 fmt::format("output \"{}\" must be that of the {} score head", name,
                             head == 0 ? "first" : "second"),
                 graph.node(output).where);
  }
}

// No score head reads another one's tensors. Then each reads one query and one key, as there are no more.
void check_heads_apart(Report& report, const std::vector<ScoreHead>& heads) {
  const Graph& graph = report.graph;
  std::map<TensorId, std::size_t> owner;
  for (std::size_t n = 0; n < heads.size(); ++n)
    for (int side : {0, 1})
      for (NodeId id : cone(graph, {graph.operand(heads[n].scores, side)})) {
        const auto* input = as<Input>(graph.node(id));
        if (input == nullptr || owner.try_emplace(input->tensor, n).first->second == n) continue;
        report.add("program.structure",
                   fmt::format("\"{}\" is read by both score heads", graph.tensor(input->tensor).name),
                   graph.node(id).where);
      }
}

void check_score_heads(Report& report, const std::vector<ScoreHead>& heads) {
  const Graph& graph = report.graph;
  for (const ScoreHead& head : heads)
    if (!head.normalize.valid() || !head.scores.valid())
      return report.add("program.structure", "the values are weighed by no scores",
                        graph.node(head.attend).where, "scale x in score and weights lines, or add to it");
  check_statistics(report, heads);
  if (heads.size() == 1) return;
  const auto differ = [&](auto part) { return part(heads[0]) != part(heads[1]); };
  if (differ([&](const ScoreHead& head) { return graph.operand(head.normalize, 1); }) ||
      differ([&](const ScoreHead& head) { return graph.operand(head.attend, 1); }) ||
      differ([&](const ScoreHead& head) { return kind_of(graph, head.normalize); }))
    report.add("program.structure", "both score heads need the same mask, normalization and values", {});
  check_heads_apart(report, heads);
}

}  // namespace

void check_structure(Report& report, std::span<const NodeId> live) {
  check_outputs(report);
  if (!uses<Scores>(report.graph, live))
    report.add("program.structure", "the score expression does not use x", {}, "scale x, or add to it");
  if (!uses<Attend>(report.graph, live))
    report.add("program.structure", "the output expression does not use x", {}, "scale x, or add to it");
  const int heads = report.graph.info().score_heads;
  const int least = heads == 1 ? 0 : heads;  // those of the first are asked for above
  check_count<Scores>(report, live, "score products", least, heads);
  check_count<Normalize>(report, live, "normalizations", heads, heads);
  check_count<Attend>(report, live, "products with the values", least, heads);
  check_count<LogSumExp>(report, live, "log-sum-exps", 0, heads);
  for (NodeId id : live) {
    if (as<LogSumExp>(report.graph.node(id)))
      check_operand<Normalize>(report, id, 0, "the log-sum-exp must be that of the weights");
    if (as<RowMax>(report.graph.node(id)))
      check_operand<Normalize>(report, id, 0, "the largest score must be that of the weights");
  }
  if (report.found.empty()) check_score_heads(report, score_heads(report.graph));
}

void check_stages(Report& report) {
  const Graph& graph = report.graph;
  const std::vector<ScoreHead> heads = score_heads(graph);
  for (const ScoreHead& head : heads) {
    check_stage(report, graph.operand(head.normalize, 0), kScore);
    if (&head == &heads[0]) check_stage(report, graph.operand(head.normalize, 1), kMask);
    if (kind_of(graph, head.normalize) == NormalizeKind::softmax_sink)
      check_stage(report, graph.operand(head.normalize, 2), kSink);
    check_weights(report, graph.operand(head.attend, 0), head.normalize);
  }
  check_transform(report, graph.operand(heads[0].attend, 1), kValue);
  check_stage(report, graph.operand(graph.output("o"), 0), kOutput);
  for (const ScoreHead& head : heads) {
    check_transform(report, graph.operand(head.scores, 0), kQuery);
    check_transform(report, graph.operand(head.scores, 1), kKey);
  }
}

}  // namespace attnfuse
