#include <algorithm>
#include <map>

#include "ir/gradient.h"
#include "ir/verify_rules.h"

namespace attnfuse {
namespace {

constexpr Axes kScoreAxes{Axis::b, Axis::h, Axis::i, Axis::j};
constexpr Axes kQueryAxes{Axis::b, Axis::h, Axis::i, Axis::d};
constexpr Axes kKeyAxes{Axis::b, Axis::g, Axis::j, Axis::d};

class GradientRules {
 public:
  explicit GradientRules(Report& report) : report_(report), graph_(report.graph) {}

  void check_tensor(const TensorInfo& tensor) {
    if (tensor.role != TensorRole::saved && tensor.role != TensorRole::upstream) return;
    const std::vector<Extent> row{{Size::batch}, {Size::heads}, {Size::sq}};
    std::vector<Extent> element = row;
    element.push_back({Size::v_head_dim});
    if (tensor.shape != row && tensor.shape != element)
      report_.add("gradient.tensor",
                  fmt::format("\"{}\" must have shape [batch, heads, sq] or [batch, heads, sq, v_head_dim]",
                              tensor.name),
                  tensor.where);
  }

  void check_node(NodeId id) {
    const Node& node = graph_.node(id);
    if (as<Normalize>(node) || as<Attend>(node) || as<LogSumExp>(node) || as<RowMax>(node) ||
        as<Variable>(node))
      mistake(id, "a gradient graph reads what the forward pass saved and computes none of it again");
    if (as<Contract>(node)) check_contract(id);
    if (as<SumOver>(node)) check_sum(id);
    if (const auto* scatter = as<Scatter>(node)) check_scatter(id, graph_.tensor(scatter->tensor));
    if (!node.axes.within(kScoreAxes) && !node.axes.within(kQueryAxes) && !node.axes.within(kKeyAxes))
      mistake(id, fmt::format("no tile has the axes {}", to_string(node.axes)));
    if (as<Output>(node)) return;
    for (NodeId operand : graph_.operands(id))
      if (as<Scatter>(graph_.node(operand)))
        mistake(id, "the gradient of a captured tensor is an output alone");
  }

  void check_outputs() {
    std::map<std::string, const TensorInfo*> wanted;
    for (const TensorInfo& tensor : graph_.tensors())
      if (has_gradient(tensor)) wanted[gradient_name(tensor.name)] = &tensor;
    for (NodeId id : graph_.outputs()) {
      const std::string& name = as<Output>(graph_.node(id))->name;
      const auto found = wanted.find(name);
      if (found == wanted.end()) {
        mistake(id, fmt::format("output \"{}\" is the gradient of no tensor, or there twice", name));
        continue;
      }
      check_output(id, *found->second);
      wanted.erase(found);
    }
    for (const auto& [name, tensor] : wanted)
      report_.add("gradient.output", fmt::format("there is no output \"{}\"", name), tensor->where);
  }

 private:
  static bool has_gradient(const TensorInfo& tensor) {
    switch (tensor.role) {
      case TensorRole::query:
      case TensorRole::key:
      case TensorRole::value:
        return true;
      case TensorRole::captured:
        return tensor.grad;
      case TensorRole::constant:
      case TensorRole::saved:
      case TensorRole::upstream:
        return false;
    }
    return false;
  }

  void mistake(NodeId id, std::string message) {
    report_.add("gradient.structure", std::move(message), graph_.node(id).where);
  }

  void check_output(NodeId id, const TensorInfo& tensor) {
    const std::vector<NodeId> operands = graph_.operands(id);
    if (tensor.role == TensorRole::captured) {
      for (NodeId operand : operands) {
        const auto* scatter = as<Scatter>(graph_.node(operand));
        if (!scatter || &graph_.tensor(scatter->tensor) != &tensor)
          mistake(id, fmt::format("the gradient of \"{}\" is made of sums into its elements", tensor.name));
      }
      return;
    }
    const Axes axes = tensor.role == TensorRole::query ? kQueryAxes : kKeyAxes;
    if (operands.size() != 1 || graph_.node(operands[0]).type != ValueType::f32 ||
        !graph_.node(operands[0]).axes.within(axes))
      mistake(id, fmt::format("the gradient of \"{}\" is one f32 value at {}", tensor.name, to_string(axes)));
  }

  void check_contract(NodeId id) {
    const Axis over = as<Contract>(graph_.node(id))->over;
    if (over != Axis::i && over != Axis::j) {
      mistake(id, fmt::format("a product of gradients is summed over i or j, not {}", name(over)));
      return;
    }
    const auto axes = [&](int operand) { return graph_.node(graph_.operand(id, operand)).axes; };
    if (!axes(0).within(kScoreAxes) || !axes(1).within(over == Axis::j ? kKeyAxes : kQueryAxes))
      mistake(id, fmt::format("rows with the axes {} cannot be summed over {} by {}", to_string(axes(1)),
                              name(over), to_string(axes(0))));
    check_mask(id, graph_.operand(id, 2));
  }

  void check_sum(NodeId id) {
    check_mask(id, graph_.operand(id, 1));
    if (graph_.node(graph_.operand(id, 0)).type != ValueType::f32) mistake(id, "only f32 values are summed");
  }

  void check_scatter(NodeId id, const TensorInfo& tensor) {
    const std::vector<NodeId> operands = graph_.operands(id);
    check_mask(id, operands.back());
    if (graph_.node(operands.front()).type != ValueType::f32) mistake(id, "only f32 values are summed");
    if (tensor.role != TensorRole::captured || !tensor.grad)
      mistake(id, fmt::format("\"{}\" is no captured tensor whose gradient is wanted", tensor.name));
    for (NodeId operand : operands) check_within(id, operand, as<Scatter>(graph_.node(id))->over);
    for (std::size_t k = 1; k + 1 < operands.size(); ++k)
      if (graph_.node(operands[k]).type != ValueType::i32)
        mistake(id, fmt::format("index {} into the gradient of \"{}\" is not i32", k, tensor.name));
  }

  void check_within(NodeId id, NodeId operand, Axes axes) {
    if (!graph_.node(operand).axes.within(axes))
      mistake(id, fmt::format("a value with the axes {} is summed at positions of {}",
                              to_string(graph_.node(operand).axes), to_string(axes)));
  }

  void check_mask(NodeId id, NodeId mask) {
    if (graph_.node(mask).type != ValueType::boolean) mistake(id, "a mask is a truth value");
  }

  Report& report_;
  const Graph& graph_;
};

}  // namespace

void check_gradient(Report& report, std::span<const NodeId> live) {
  GradientRules rules(report);
  for (const TensorInfo& tensor : report.graph.tensors()) rules.check_tensor(tensor);
  for (NodeId id : live) rules.check_node(id);
  rules.check_outputs();
}

}  // namespace attnfuse
