#include <algorithm>

#include "ir/algorithm.h"
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
               fmt::format("the program has {} {}; it needs {}", count, what,
                           least == most ? "exactly one" : "at most one"),
               {});
}

template <class Kind>
void check_operand(Report& report, NodeId id, int position, std::string_view message) {
  const NodeId operand = report.graph.operand(id, position);
  if (!as<Kind>(report.graph.node(operand)))
    report.add("program.structure", std::string(message), report.graph.node(id).where);
}

void check_outputs(Report& report) {
  int o = 0;
  int lse = 0;
  for (NodeId id : report.graph.outputs()) {
    const Node& node = report.graph.node(id);
    const std::string& name = as<Output>(node)->name;
    if (name == "o") {
      ++o;
      check_operand<Attend>(report, id, 0, "output \"o\" must be the attention result");
    } else if (name == "lse") {
      ++lse;
      check_operand<LogSumExp>(report, id, 0, "output \"lse\" must be the log-sum-exp of the weights");
    } else {
      report.add("program.output", fmt::format(R"(unknown output "{}"; outputs are "o" and "lse")", name),
                 node.where);
    }
  }
  if (o != 1)
    report.add("program.output", fmt::format("output \"o\" is written {} times; it must be once", o), {});
  if (lse > 1)
    report.add("program.output", fmt::format("output \"lse\" is written {} times; it may be once", lse), {});
}

// A place where expressions stand: what they may depend on and read.
struct Stage {
  std::string_view name;
  ValueType type;
  Axes axes;
  bool transform;  // of `input`, and may pair elements along d
  TensorRole input;
  bool reads_scores;
  Size dim;  // length of d
};
constexpr Axes kScoreAxes{Axis::b, Axis::h, Axis::i, Axis::j};
constexpr Axes kQueryAxes{Axis::b, Axis::h, Axis::i, Axis::d};
constexpr Axes kKeyAxes{Axis::b, Axis::g, Axis::j, Axis::d};
constexpr Stage kQuery{"query", ValueType::f32, kQueryAxes, true, TensorRole::query, false, Size::head_dim};
constexpr Stage kKey{"key", ValueType::f32, kKeyAxes, true, TensorRole::key, false, Size::head_dim};
constexpr Stage kValue{"value", ValueType::f32, kKeyAxes, true, TensorRole::value, false, Size::v_head_dim};
constexpr Stage kScore{"score", ValueType::f32, kScoreAxes, false, {}, true, {}};
constexpr Stage kMask{"mask", ValueType::boolean, kScoreAxes, false, {}, false, {}};
constexpr Stage kSink{"sink", ValueType::f32, {Axis::b, Axis::h}, false, {}, false, {}};

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
                          return stage.transform && graph.tensor(input.tensor).role == stage.input;
                        },
                        [](const Constant&) { return true; },
                        [](const SizeOf&) { return true; },
                        [](const Index&) { return true; },
                        [](const Variable&) { return false; },
                        [](const Apply&) { return true; },
                        [](const Gather&) { return true; },
                        [&](const Partner&) { return stage.transform; },
                        [&](const Reduce&) { return stage.transform; },
                        [&](const Scores&) { return stage.reads_scores; },
                        [](const Normalize&) { return false; },
                        [](const Attend&) { return false; },
                        [](const LogSumExp&) { return false; },
                        [](const Output&) { return false; },
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
          [](const Output&) { return std::string("an output"); },
      },
      node.kind);
}

// Nodes of the stage: what the root depends on, not going below what may not stand here or is the score.
void check_node(Report& report, NodeId id, const Stage& stage) {
  const Graph& graph = report.graph;
  const Node& node = graph.node(id);
  if (!allowed(graph, node, stage)) {
    report.add("expression.context",
               fmt::format("{} cannot be used in a {} expression", described(graph, node), stage.name),
               node.where);
    return;
  }
  if (const auto* partner = as<Partner>(node))
    check_partner(report, id, *partner, *graph.info().size(stage.dim));
  if (as<Scores>(node)) return;
  // Reported where the axis enters.
  if (!node.axes.within(stage.axes) && graph.operands(id).empty())
    report.add("expression.axes",
               fmt::format("{} cannot be used in a {} expression, which may depend on {}",
                           described(graph, node), stage.name, to_string(stage.axes)),
               node.where);
}

void check_stage(Report& report, NodeId root, const Stage& stage) {
  const Node& node = report.graph.node(root);
  if (node.type != stage.type)
    report.add(
        "expression.type",
        fmt::format("a {} expression is {}; it must be {}", stage.name, name(node.type), name(stage.type)),
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
    if (!allowed(report.graph, visited, stage) || as<Scores>(visited)) continue;
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

}  // namespace

void check_structure(Report& report, std::span<const NodeId> live) {
  check_outputs(report);
  if (!uses<Scores>(report.graph, live))
    report.add("program.structure", "the score expression does not use x", {}, "scale x, or add to it");
  check_count<Scores>(report, live, "score products", 0, 1);
  check_count<Normalize>(report, live, "normalizations", 1, 1);
  check_count<Attend>(report, live, "products with the values", 1, 1);
  check_count<LogSumExp>(report, live, "log-sum-exps", 0, 1);
  for (NodeId id : live) {
    if (as<Attend>(report.graph.node(id))) check_operand<Normalize>(report, id, 0, "only weights can attend");
    if (as<LogSumExp>(report.graph.node(id)))
      check_operand<Normalize>(report, id, 0, "the log-sum-exp must be that of the weights");
  }
}

void check_stages(Report& report) {
  const Graph& graph = report.graph;
  const NodeId attend = graph.operand(graph.output("o"), 0);
  const NodeId normalize = graph.operand(attend, 0);
  check_stage(report, graph.operand(normalize, 0), kScore);
  check_stage(report, graph.operand(normalize, 1), kMask);
  if (as<Normalize>(graph.node(normalize))->kind == NormalizeKind::softmax_sink)
    check_stage(report, graph.operand(normalize, 2), kSink);
  check_transform(report, graph.operand(attend, 1), kValue);
  for (NodeId id : cone(graph, {graph.operand(normalize, 0)})) {
    if (!as<Scores>(graph.node(id))) continue;
    check_transform(report, graph.operand(id, 0), kQuery);
    check_transform(report, graph.operand(id, 1), kKey);
  }
}

}  // namespace attnfuse
