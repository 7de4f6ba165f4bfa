#include "frontend/reader.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include <fmt/format.h>

#include "frontend/expand.h"
#include "frontend/functions.h"
#include "frontend/suggest.h"

namespace attnfuse {
namespace {

// `before`: the type of the operand before.
bool takes(char letter, ValueType type, ValueType before) {
  if (letter == 's') letter = before == ValueType::boolean ? 'b' : 'n';
  if (letter == 'i') return type == ValueType::i32;
  return letter == 'a' || (letter == 'b') == (type == ValueType::boolean);
}

// Letters as in Function::operands.
char operand_letter(Operator op) {
  switch (op) {
    case Operator::logical_or:
    case Operator::logical_and:
    case Operator::logical_not:
      return 'b';
    case Operator::floor_div:
    case Operator::mod:
      return 'i';
    case Operator::lt:
    case Operator::le:
    case Operator::gt:
    case Operator::ge:
    case Operator::eq:
    case Operator::ne:
    case Operator::add:
    case Operator::sub:
    case Operator::mul:
    case Operator::div:
    case Operator::neg:
      return 'n';
  }
  ATTNFUSE_CHECK(false, "not an operator");
}

Value operate(Operator op, const std::vector<Value>& x) {
  switch (op) {
    case Operator::logical_or:
      return logical_or(x[0], x[1]);
    case Operator::logical_and:
      return logical_and(x[0], x[1]);
    case Operator::lt:
      return x[0] < x[1];
    case Operator::le:
      return x[0] <= x[1];
    case Operator::gt:
      return x[0] > x[1];
    case Operator::ge:
      return x[0] >= x[1];
    case Operator::eq:
      return x[0] == x[1];
    case Operator::ne:
      return x[0] != x[1];
    case Operator::add:
      return x[0] + x[1];
    case Operator::sub:
      return x[0] - x[1];
    case Operator::mul:
      return x[0] * x[1];
    case Operator::div:
      return x[0] / x[1];
    case Operator::floor_div:
      return floor_div(x[0], x[1]);
    case Operator::mod:
      return mod(x[0], x[1]);
    case Operator::neg:
      return -x[0];
    case Operator::logical_not:
      return logical_not(x[0]);
  }
  ATTNFUSE_CHECK(false, "not an operator");
}

std::string_view wanted(char letter) {
  if (letter == 's') return "two of one type";
  return letter == 'b' ? "bool" : letter == 'i' ? "i32" : "numbers";
}

std::string type_fix(char letter, ValueType type) {
  if (letter == 'i') return "round it with to_i32(...)";
  if (letter == 's') return "compare the number, or convert the bool with to_f32(...)";
  if (letter == 'b') return "compare it, as in a != 0";
  return type == ValueType::boolean ? "convert it with to_f32(...), or use &&, || and !" : "";
}

}  // namespace

std::string quoted(const Expression& expression) {
  constexpr std::size_t kShown = 60;
  std::string text = print(expression);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return "'" + text + "'";
}

std::optional<Axis> Reader::index_axis(std::string_view name) const {
  if (name == "h") return stage_ == Stage::key || stage_ == Stage::value ? Axis::g : Axis::h;
  for (Axis axis : {Axis::b, Axis::i, Axis::j, Axis::d})
    if (name == attnfuse::name(axis)) return axis;
  return {};
}

const Block* Reader::block_named(const Expression& expression) {
  const bool may_be = expression.is(ExpressionKind::call) || expression.is(ExpressionKind::name);
  return may_be ? find_block(expression.text) : nullptr;
}

std::optional<Value> Reader::line(const Expression& expression, const Value& mask) {
  if (const Block* block = block_named(expression)) return expand_block(*block, expression, mask);
  if (stage_ == Stage::normalize) {
    std::vector<std::string_view> known;
    for (const Block* block : catalog())
      if (stands_in(*block, stage_)) known.push_back(block->name);
    return fail("block.unknown", expression, fmt::format("{} is not a normalize block", quoted(expression)),
                suggest(expression.text, known, fmt::format("use {}", fmt::join(known, " or "))));
  }
  used_x_ = false;
  const Maybe value = read(expression);
  if (!value) return {};
  if (x_ && !used_x_)
    return fail(
        "expression.unused-x", expression,
        fmt::format("{} does not use x: the {} so far would be lost", quoted(expression), name(stage_)),
        "x is the value so far; start from it, as in x * 0.5");
  const bool is_mask = stage_ == Stage::mask;
  if (is_mask != (value->type() == ValueType::boolean))
    return fail(
        "expression.type", expression,
        fmt::format("{} is {}; {} {} expression must be {}", quoted(expression), name(value->type()),
                    stage_ == Stage::output ? "an" : "a", name(stage_), is_mask ? "bool" : "a number"),
        is_mask ? "compare it, as in a != 0" : "convert it with to_f32(...)");
  return is_mask ? *value : to_f32(*value);
}

std::optional<Value> Reader::read(const Expression& expression) {
  emitter_.where = expression.where;
  switch (expression.kind) {
    case ExpressionKind::number:
      return checked(expression, Value::constant(expression.value,
                                                 expression.is_integer ? ValueType::i32 : ValueType::f32));
    case ExpressionKind::name:
      return read_name(expression);
    case ExpressionKind::operation:
      return read_operation(expression);
    case ExpressionKind::call:
      return read_call(expression);
    case ExpressionKind::gather:
      return read_gather(expression);
    case ExpressionKind::sum:
      return read_sum(expression);
    case ExpressionKind::invalid:
      return fail("expression.too-large", expression, "the expression " + expression.text,
                  "split it into several lines, or use a captured tensor");
  }
  ATTNFUSE_CHECK(false, "not an expression");
}

std::optional<Value> Reader::checked(const Expression& expression, const Value& value) {
  if (!value.is_constant()) return value;
  const double x = value.constant();
  const bool ok = value.type() == ValueType::i32 ? x >= INT32_MIN && x <= INT32_MAX : std::fabs(x) <= FLT_MAX;
  if (ok) return value;
  return fail(
      "expression.constant", expression,
      fmt::format("{} is {}, which does not fit {}", quoted(expression), x, name(value.type())),
      value.type() == ValueType::i32 ? "write one of the numbers with a point, to compute in f32" : "");
}

std::optional<Value> Reader::read_name(const Expression& expression) {
  const std::string& word = expression.text;
  for (const Variable& variable : variables_)
    if (variable.name == word) return Value(variable.value);
  if (word == "x") {
    used_x_ = true;
    if (x_) return x_;
    return fail("expression.no-x", expression,
                fmt::format("x has no meaning in this {} expression", name(stage_)),
                stage_ == Stage::mask ? "a mask may depend on b, h, i, j, sizes and captured tensors" : "");
  }
  if (word == "true" || word == "false") return Value::constant(word == "true", ValueType::boolean);
  if (const auto axis = index_axis(word))
    return Value(emitter_, emitter_.graph.add(Index{*axis}, {}, emitter_.where));
  for (Size size : kAllSizes) {
    if (word != name(size)) continue;
    if (const auto fixed = emitter_.graph.info().size(size)) return Value(*fixed);
    return Value(emitter_, emitter_.graph.add(SizeOf{size}, {}, emitter_.where));
  }
  const TensorId tensor = emitter_.graph.find_tensor(word);
  if (tensor.valid()) {
    const std::size_t rank = emitter_.graph.tensor(tensor).shape.size();
    if (rank == 0) return Value(emitter_, emitter_.graph.add(Gather{tensor}, {}, emitter_.where));
    return fail("expression.index", expression,
                fmt::format("'{}' is a tensor with {} dimension{}", word, rank, rank == 1 ? "" : "s"),
                fmt::format("index it, as in {}[{}]", word, rank == 1 ? "h" : "h, ..."));
  }
  if (stage_ == Stage::mask)
    if (const Block* block = find_block(word)) return expand_block(*block, expression, 1);
  return unknown(expression);
}

std::optional<Value> Reader::unknown(const Expression& expression) {
  if (const Block* block = find_block(expression.text))
    return fail("block.position", expression,
                fmt::format("'{}' is a block and no part of an expression", block->name),
                "give it a line of its own");
  std::vector<std::string_view> known;
  for (const Block* block : catalog())
    if (stands_in(*block, stage_)) known.push_back(block->name);
  std::string otherwise;
  if (expression.is(ExpressionKind::call)) {
    for (const Function& function : functions()) known.push_back(function.name);
    otherwise = fmt::format("blocks of a {} line and functions are {}", name(stage_), fmt::join(known, ", "));
    return fail("block.unknown", expression,
                fmt::format("'{}' is neither a block nor a function", expression.text),
                suggest(expression.text, known, otherwise));
  }
  for (Size size : kAllSizes) known.push_back(name(size));
  for (const TensorInfo& tensor : emitter_.graph.tensors())
    if (tensor.role == TensorRole::captured) known.push_back(tensor.name);
  return fail(
      "expression.unknown-name", expression, fmt::format("'{}' means nothing here", expression.text),
      suggest(expression.text, known, fmt::format("declare it: param {} : f32[heads]", expression.text)));
}

std::optional<Value> Reader::read_operation(const Expression& expression) {
  std::vector<Value> operands;
  bool ok = true;
  const char letter = operand_letter(expression.op);
  const std::string_view spelling = info(expression.op).spelling;
  for (const Expression& operand : expression.operands) {
    const Maybe value = read(operand);
    ok = ok && value;
    if (!value) continue;
    operands.push_back(*value);
    if (takes(letter, value->type(), value->type())) continue;
    fail("expression.type", expression,
         fmt::format("{} is {}; '{}' takes {}", quoted(operand), name(value->type()), spelling,
                     wanted(letter)),
         letter == 'i' ? "use floor(a / b), or a - b * floor(a / b)" : type_fix(letter, value->type()));
    ok = false;
  }
  if (!ok) return {};
  if (letter == 'i' && operands[1].is_constant() && operands[1].constant() == 0)
    return fail("expression.division", expression, fmt::format("{} divides by zero", quoted(expression)));
  emitter_.where = expression.where;
  return checked(expression, operate(expression.op, operands));
}

std::optional<Value> Reader::read_call(const Expression& expression) {
  const Function* function = find_function(expression.text);
  if (!function) {
    const Block* block = block_named(expression);
    if (block && stage_ == Stage::mask) return expand_block(*block, expression, 1);
    return unknown(expression);
  }
  if (expression.operands.size() != function->operands.size())
    return fail("expression.arity", expression,
                fmt::format("{} takes {} argument{}, not {}", function->name, function->operands.size(),
                            function->operands.size() == 1 ? "" : "s", expression.operands.size()));
  std::vector<Value> operands;
  bool ok = true;
  for (std::size_t k = 0; k < expression.operands.size(); ++k) {
    const Expression& operand = expression.operands[k];
    if (!expression.argument_names[k].empty()) {
      fail("expression.arity", operand,
           fmt::format("{} is a function; its arguments have no names", function->name),
           fmt::format("remove '{} ='", expression.argument_names[k]));
      ok = false;
    }
    const Maybe value = read(operand);
    ok = ok && value;
    if (!value) continue;
    operands.push_back(*value);
    const char letter = function->operands[k];
    const ValueType before = operands.size() > 1 ? operands[operands.size() - 2].type() : value->type();
    if (takes(letter, value->type(), before)) continue;
    fail("expression.type", operand,
         fmt::format("{} is {}; {} takes {}", quoted(operand), name(value->type()), function->name,
                     wanted(letter)),
         type_fix(letter, value->type()));
    ok = false;
  }
  if (!ok) return {};
  emitter_.where = expression.where;
  return checked(expression, function->apply(operands));
}

// Ranks and index types are rules of verify().
std::optional<Value> Reader::read_gather(const Expression& expression) {
  const TensorId tensor = emitter_.graph.find_tensor(expression.text);
  if (!tensor.valid()) {
    std::vector<std::string_view> known;
    for (const TensorInfo& info : emitter_.graph.tensors())
      if (info.role == TensorRole::captured) known.push_back(info.name);
    return fail(
        "expression.unknown-name", expression, fmt::format("there is no tensor '{}'", expression.text),
        suggest(expression.text, known, fmt::format("declare it: param {} : f32[heads]", expression.text)));
  }
  std::vector<NodeId> indices;
  for (const Expression& operand : expression.operands) {
    const Maybe index = read(operand);
    if (index) indices.push_back(index->node(emitter_));
  }
  if (indices.size() != expression.operands.size()) return {};
  emitter_.where = expression.where;
  return Value(emitter_, emitter_.graph.add(Gather{tensor}, indices, emitter_.where));
}

std::optional<int> Reader::read_end(const Expression& sum, const Expression& end) {
  const Maybe value = read(end);
  if (!value) return {};
  if (value->is_constant() && value->type() == ValueType::i32) return int(value->constant());
  return fail(
      "expression.sum-range", end,
      fmt::format("{} sums up to {}, which is no integer known at compile time", quoted(sum), quoted(end)),
      "use numbers, heads, kv_heads, head_dim or v_head_dim");
}

std::optional<Value> Reader::read_sum(const Expression& expression) {
  const std::string& name = expression.text;
  const auto has_name = [&](const Variable& variable) { return variable.name == name; };
  if (is_reserved_name(name) || emitter_.graph.find_tensor(name).valid() ||
      std::ranges::any_of(variables_, has_name))
    return fail("expression.sum-variable", expression,
                fmt::format("'{}' already has a meaning and cannot be the variable of a sum", name),
                "choose another name");
  const auto first = read_end(expression, expression.operands[0]);
  const auto end = read_end(expression, expression.operands[1]);
  if (!first || !end) return {};
  const Expression& summand = expression.operands[2];
  const std::int64_t count = std::max<std::int64_t>(0, std::int64_t(*end) - *first), outside = repeats_;
  if (count > kMaxSummedNodes / (outside * summand.nodes))
    return fail("expression.too-large", expression,
                fmt::format("{} written out has {} parts; the limit is {}", quoted(expression),
                            count * outside * summand.nodes, kMaxSummedNodes),
                "sum fewer, or use a captured tensor");
  repeats_ = outside * std::max<std::int64_t>(count, 1);
  variables_.push_back({name, 0});
  Maybe total = Value(0);
  for (std::int64_t n = 0; total && n < count; ++n) {
    variables_.back().value = int(*first + n);
    Maybe term = read(summand);
    if (term && term->type() == ValueType::boolean) term = select(*term, 1, 0);
    emitter_.where = expression.where;
    total = !term ? term : n == 0 ? term : checked(expression, *total + *term);
  }
  variables_.pop_back();
  repeats_ = outside;
  return total;
}

}  // namespace attnfuse
