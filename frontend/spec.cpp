#include "frontend/spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace attnfuse {
namespace {

// In enumerator order.
constexpr OperatorInfo kOperators[] = {
    {"||", 2, Precedence::logical_or},     {"&&", 2, Precedence::logical_and},
    {"<", 2, Precedence::relational},      {"<=", 2, Precedence::relational},
    {">", 2, Precedence::relational},      {">=", 2, Precedence::relational},
    {"==", 2, Precedence::relational},     {"!=", 2, Precedence::relational},
    {"+", 2, Precedence::additive},        {"-", 2, Precedence::additive},
    {"*", 2, Precedence::multiplicative},  {"/", 2, Precedence::multiplicative},
    {"//", 2, Precedence::multiplicative}, {"%", 2, Precedence::multiplicative},
    {"-", 1, Precedence::unary},           {"!", 1, Precedence::unary},
};
static_assert(std::size(kOperators) == std::size_t(Operator::logical_not) + 1);

constexpr std::string_view kStages[] = {"query", "key",       "value",   "score",
                                        "mask",  "normalize", "weights", "output"};
constexpr std::string_view kHeaderFields[] = {"heads", "kv_heads", "head_dim", "v_head_dim", "dtype"};

// Counts the tree below; a tree beyond the limits is replaced, so that no walk ever meets it.
Expression counted(Expression expression) {
  for (const Expression& operand : expression.operands) {
    if (operand.is(ExpressionKind::invalid)) return operand;
    expression.depth = std::max(expression.depth, operand.depth + 1);
    expression.nodes += operand.nodes;
  }
  const bool too_deep = expression.depth > kMaxExpressionDepth;
  if (!too_deep && expression.nodes <= kMaxExpressionNodes) return expression;
  Expression invalid;
  invalid.text =
      too_deep ? fmt::format("is nested {} deep; the limit is {}", expression.depth, kMaxExpressionDepth)
               : fmt::format("has {} parts; the limit is {}", expression.nodes, kMaxExpressionNodes);
  invalid.where = expression.where;
  return invalid;
}

// A sum takes all factors that follow it.
Precedence precedence(const Expression& expression) {
  if (expression.is(ExpressionKind::sum)) return Precedence::additive;
  return expression.is(ExpressionKind::operation) ? info(expression.op).precedence : Precedence::primary;
}

std::string bracketed(const Expression& operand, bool needed) {
  return needed ? "(" + print(operand) + ")" : print(operand);
}

std::string print_operation(const Expression& expression) {
  const OperatorInfo& op = info(expression.op);
  const Expression& first = expression.operands[0];
  if (op.arity == 1)
    return fmt::format("{}{}", op.spelling, bracketed(first, precedence(first) < op.precedence));
  const Expression& second = expression.operands[1];
  // Operators group to the left; comparisons do not group.
  const bool groups = op.precedence != Precedence::relational;
  return fmt::format(
      "{} {} {}",
      bracketed(first, groups ? precedence(first) < op.precedence : precedence(first) <= op.precedence),
      op.spelling, bracketed(second, precedence(second) <= op.precedence));
}

std::string print_arguments(const Expression& call) {
  std::string text;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    if (k > 0) text += ", ";
    if (k < call.argument_names.size() && !call.argument_names[k].empty())
      text += call.argument_names[k] + " = ";
    text += print(call.operands[k]);
  }
  return text;
}

std::string print_sum(const Expression& sum) {
  const Expression& summand = sum.operands[2];
  return fmt::format("sum({} in {}..{}) {}", sum.text, print(sum.operands[0]), print(sum.operands[1]),
                     bracketed(summand, precedence(summand) < Precedence::multiplicative));
}

// Reads back as the same number of the same type.
std::string print_number(const Expression& number) {
  if (number.is_integer) return fmt::format("{:.0f}", number.value);
  std::string text = fmt::format("{}", number.value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string print_param(const Param& param) {
  std::string shape;
  for (const Extent& extent : param.shape) {
    if (!shape.empty()) shape += ", ";
    shape += std::visit(overloaded{[](Size size) { return std::string(name(size)); },
                                   [](std::int64_t number) { return std::to_string(number); }},
                        extent.value);
  }
  if (!shape.empty()) shape = "[" + shape + "]";
  return fmt::format("  param {} : {}{}{}\n", param.name, name(param.dtype), shape,
                     param.grad ? " grad" : "");
}

std::string print_storage(const std::vector<StorageForm>& forms) {
  std::vector<std::string> texts;
  for (const StorageForm& form : forms)
    texts.push_back(form.page_size ? fmt::format("paged(page_size = {})", *form.page_size) : "ragged");
  return fmt::format("  storage {}\n", fmt::join(texts, ", "));
}

}  // namespace

const OperatorInfo& info(Operator op) { return kOperators[std::size_t(op)]; }
std::string_view name(Stage stage) { return kStages[std::size_t(stage)]; }
std::string_view name(HeaderField field) { return kHeaderFields[std::size_t(field)]; }

bool operator==(const Expression& a, const Expression& b) {
  return a.kind == b.kind && a.text == b.text && a.value == b.value && a.is_integer == b.is_integer &&
         a.op == b.op && a.operands == b.operands && a.argument_names == b.argument_names;
}

bool operator==(const Line& a, const Line& b) { return a.stage == b.stage && a.expression == b.expression; }

bool operator==(const Param& a, const Param& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.grad == b.grad;
}

bool operator==(const StorageForm& a, const StorageForm& b) { return a.page_size == b.page_size; }

bool operator==(const Spec& a, const Spec& b) {
  return a.info.name == b.info.name && a.info.heads == b.info.heads && a.info.kv_heads == b.info.kv_heads &&
         a.info.head_dim == b.info.head_dim && a.info.v_head_dim == b.info.v_head_dim &&
         a.info.dtype == b.info.dtype && a.storage == b.storage && a.params == b.params && a.lines == b.lines;
}

Expression make_number(double value, bool is_integer, Where where) {
  if (std::signbit(value) && !std::isnan(value))
    return make_operation(Operator::neg, {make_number(-value, is_integer, where)}, where);
  Expression number;
  number.kind = ExpressionKind::number;
  number.value = value;
  number.is_integer = is_integer;
  number.where = std::move(where);
  return number;
}

Expression make_name(std::string text, Where where) {
  Expression name;
  name.kind = ExpressionKind::name;
  name.text = std::move(text);
  name.where = std::move(where);
  return name;
}

Expression make_operation(Operator op, std::vector<Expression> operands, Where where) {
  ATTNFUSE_CHECK(int(operands.size()) == info(op).arity, "an operator has the wrong number of operands");
  Expression operation;
  operation.kind = ExpressionKind::operation;
  operation.op = op;
  operation.operands = std::move(operands);
  operation.where = std::move(where);
  return counted(std::move(operation));
}

Expression make_call(std::string text, std::vector<Expression> operands,
                     std::vector<std::string> argument_names, Where where) {
  argument_names.resize(operands.size());
  Expression call;
  call.kind = ExpressionKind::call;
  call.text = std::move(text);
  call.operands = std::move(operands);
  call.argument_names = std::move(argument_names);
  call.where = std::move(where);
  return counted(std::move(call));
}

Expression make_gather(std::string tensor, std::vector<Expression> indices, Where where) {
  Expression gather;
  gather.kind = ExpressionKind::gather;
  gather.text = std::move(tensor);
  gather.operands = std::move(indices);
  gather.where = std::move(where);
  return counted(std::move(gather));
}

Expression make_sum(std::string variable, Expression first, Expression end, Expression summand, Where where) {
  Expression sum;
  sum.kind = ExpressionKind::sum;
  sum.text = std::move(variable);
  sum.operands = {std::move(first), std::move(end), std::move(summand)};
  sum.where = std::move(where);
  return counted(std::move(sum));
}

std::string print(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::number:
      return print_number(expression);
    case ExpressionKind::name:
      return expression.text;
    case ExpressionKind::operation:
      return print_operation(expression);
    case ExpressionKind::call:
      return fmt::format("{}({})", expression.text, print_arguments(expression));
    case ExpressionKind::gather:
      return fmt::format("{}[{}]", expression.text, print_arguments(expression));
    case ExpressionKind::sum:
      return print_sum(expression);
    case ExpressionKind::invalid:
      return "...";
  }
  ATTNFUSE_CHECK(false, "not an expression");
}

std::string print(const Spec& spec) {
  const ProgramInfo& info = spec.info;
  std::string text = fmt::format("attention {} {{\n  heads {}  kv_heads {}  head_dim {}", info.name,
                                 info.heads, info.kv_heads, info.head_dim);
  if (info.v_head_dim != info.head_dim) text += fmt::format("  v_head_dim {}", info.v_head_dim);
  text += fmt::format("  dtype {}\n", name(info.dtype));
  if (!spec.storage.empty()) text += print_storage(spec.storage);
  for (const Param& param : spec.params) text += print_param(param);
  for (const Line& line : spec.lines)
    text += fmt::format("  {:<9} {}\n", name(line.stage), print(line.expression));
  return text + "}\n";
}

}  // namespace attnfuse
