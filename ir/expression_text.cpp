// One value as text: the .attn expression language, and LaTeX. Both walk the operands once per use, so a
// value that is used often is written often; texts beyond kMaxLength end as "...".
#include <algorithm>

#include <fmt/format.h>

#include "ir/algorithm.h"
#include "ir/analysis.h"
#include "ir/text.h"

namespace attnfuse {
namespace {

constexpr std::size_t kMaxLength = 64 * 1024;

struct Text {
  std::string text;
  Precedence precedence = Precedence::primary;
};

std::string bracketed(const Text& operand, bool needed) {
  return needed ? "(" + operand.text + ")" : operand.text;
}

std::vector<std::string> texts(const std::vector<Text>& operands) {
  std::vector<std::string> result;
  for (const Text& operand : operands) result.push_back(operand.text);
  return result;
}

std::string joined(const std::vector<Text>& operands, std::string_view separator) {
  return fmt::format("{}", fmt::join(texts(operands), separator));
}

Text constant(const Node& node, double value) {
  return {constant_text(value, node.type), value < 0 ? Precedence::unary : Precedence::primary};
}

// Operators of one precedence group to the left; comparisons do not group.
std::vector<std::string> infix_operands(const std::vector<Text>& operands, Precedence precedence) {
  const bool groups = precedence != Precedence::relational && precedence != Precedence::equality;
  std::vector<std::string> result;
  for (const Text& operand : operands) {
    const bool left = result.empty() && operands.size() > 1 && groups;
    result.push_back(
        bracketed(operand, left ? operand.precedence < precedence : operand.precedence <= precedence));
  }
  return result;
}

// Calls `write(node, operand texts)` for every node of the cone; returns the root's text.
template <class Write>
std::string written(const Graph& graph, NodeId root, Write write) {
  std::vector<Text> text(graph.size());
  for (NodeId id : cone(graph, {root})) {
    std::vector<Text> operands;
    for (NodeId operand : graph.operands(id)) operands.push_back(text[operand.value]);
    text[id.value] = write(id, operands);
    if (text[id.value].text.size() > kMaxLength) text[id.value] = {"...", Precedence::primary};
  }
  return text[root.value].text;
}

// ---- .attn ----

struct Infix {
  std::string_view spelling;
  Precedence precedence;
};

// The spelling in the table, where it is an operator; // and % are operators here alone.
Infix infix(const ScalarOpInfo& op) {
  if (op.op == ScalarOp::idiv) return {"$0 // $1", Precedence::multiplicative};
  if (op.op == ScalarOp::imod) return {"$0 % $1", Precedence::multiplicative};
  if (op.precedence == Precedence::ternary) return {{}, Precedence::primary};
  return {op.precedence == Precedence::primary ? std::string_view{} : op.spelling, op.precedence};
}

// The language has one function for several types.
std::string_view function_name(const ScalarOpInfo& op) {
  if (op.op == ScalarOp::imin) return info(ScalarOp::min).name;
  if (op.op == ScalarOp::imax) return info(ScalarOp::max).name;
  if (op.op == ScalarOp::iselect) return info(ScalarOp::select).name;
  if (op.op == ScalarOp::bool_to_f32) return info(ScalarOp::to_f32).name;
  return op.name;
}

Text applied(const ScalarOpInfo& op, const std::vector<Text>& operands) {
  const Infix form = infix(op);
  if (form.spelling.empty()) return {fmt::format("{}({})", function_name(op), joined(operands, ", "))};
  return {substituted(form.spelling, infix_operands(operands, form.precedence)), form.precedence};
}

// In a key expression the language's h is the key/value head.
std::string index_name(Axis axis) { return std::string(name(axis == Axis::g ? Axis::h : axis)); }

Text attn_text(const Graph& graph, NodeId id, const std::vector<Text>& operands) {
  const Node& node = graph.node(id);
  if (const auto* apply = as<Apply>(node)) return applied(info(apply->op), operands);
  if (const auto* value = as<Constant>(node)) return constant(node, value->value);
  if (const auto* size = as<SizeOf>(node)) return {std::string(name(size->size))};
  if (const auto* index = as<Index>(node)) return {index_name(index->axis)};
  if (const auto* variable = as<Variable>(node)) return {variable->name};
  if (as<Input>(node) || as<Scores>(node)) return {"x"};
  if (const auto* gather = as<Gather>(node)) {
    const std::string& tensor = graph.tensor(gather->tensor).name;
    return {operands.empty() ? tensor : fmt::format("{}[{}]", tensor, joined(operands, ", "))};
  }
  std::string call = label(graph, id);
  std::ranges::replace(call, ' ', '_');
  return {fmt::format("{}({})", call, joined(operands, ", "))};
}

// ---- LaTeX ----

std::string word(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '_' || c == ' ') result += '\\';
    result += c;
  }
  return "\\mathrm{" + result + "}";
}

// Operands in braces or parentheses are delimited already.
Text latex_applied(const ScalarOpInfo& op, const std::vector<Text>& operands) {
  if (op.latex == "$0") return operands[0];
  const std::vector<std::string> grouped = infix_operands(operands, op.precedence);
  std::vector<std::string> chosen;
  bool delimited = true;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::size_t at = op.latex.find("$" + std::to_string(k));
    const bool inside = at > 0 && (op.latex[at - 1] == '{' || op.latex[at - 1] == '(');
    delimited = delimited && inside;
    chosen.push_back(inside ? operands[k].text : grouped[k]);
  }
  return {substituted(op.latex, chosen), delimited ? Precedence::primary : op.precedence};
}

Text latex_text(const Graph& graph, NodeId id, const std::vector<Text>& operands) {
  const Node& node = graph.node(id);
  if (const auto* apply = as<Apply>(node)) return latex_applied(info(apply->op), operands);
  if (const auto* value = as<Constant>(node)) return constant(node, value->value);
  if (const auto* size = as<SizeOf>(node)) return {word(name(size->size))};
  if (const auto* index = as<Index>(node)) return {std::string(name(index->axis))};
  if (const auto* variable = as<Variable>(node)) return {word(variable->name)};
  if (const auto* input = as<Input>(node)) return {word(graph.tensor(input->tensor).name)};
  if (as<Scores>(node)) return {"x"};
  if (const auto* gather = as<Gather>(node)) {
    const std::string tensor = word(graph.tensor(gather->tensor).name);
    return {operands.empty() ? tensor : fmt::format("{}_{{{}}}", tensor, joined(operands, ", "))};
  }
  return {fmt::format("{}({})", word(label(graph, id)), joined(operands, ", "))};
}

}  // namespace

std::string expression_text(const Graph& graph, NodeId root, NodeId x) {
  return written(graph, root, [&](NodeId id, const std::vector<Text>& operands) {
    return id == x ? Text{"x"} : attn_text(graph, id, operands);
  });
}

std::string latex(const Graph& graph, NodeId root) {
  return written(graph, root, [&](NodeId id, const std::vector<Text>& operands) {
    return latex_text(graph, id, operands);
  });
}

}  // namespace attnfuse
