#include <cmath>

#include <fmt/format.h>

#include "frontend/reader.h"
#include "frontend/suggest.h"

namespace attnfuse {
namespace {

std::string number_text(double value) { return fmt::format("{:.10g}", value); }

std::string limit_text(const Parameter& parameter) {
  constexpr double kUnlimited = 1e38;
  const bool below = parameter.least > -kUnlimited, above = parameter.most < kUnlimited;
  if (below && above)
    return fmt::format("lie between {} and {}", number_text(parameter.least), number_text(parameter.most));
  if (above) return fmt::format("be at most {}", number_text(parameter.most));
  return fmt::format("be {} {}", parameter.above_least ? "greater than" : "at least",
                     number_text(parameter.least));
}

std::vector<std::string_view> names_of(std::span<const Parameter> parameters) {
  std::vector<std::string_view> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

// As the tensor is declared.
std::string tensor_text(const Parameter& parameter) {
  std::vector<std::string_view> axes;
  for (const TensorAxis& axis : parameter.axes) axes.push_back(axis.name);
  return fmt::format("{}[{}]", name(parameter.type), fmt::join(axes, ", "));
}

Arguments::Argument absent(const Parameter& parameter) {
  Arguments::Argument argument;
  if (parameter.presence != Presence::defaulted) return argument;
  if (parameter.kind == ParameterKind::number) argument.value = Value(parameter.fallback);
  if (parameter.kind == ParameterKind::integer) argument.value = Value(int(parameter.fallback));
  if (parameter.kind == ParameterKind::choice)
    for (const Parameter& inner : parameter.choices.front().parameters)
      argument.nested.push_back(absent(inner));
  return argument;
}

}  // namespace

std::size_t Arguments::position(std::string_view name) const {
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    if (parameters_[k].name == name) return k;
  ATTNFUSE_CHECK(false, "a block has no parameter " + std::string(name));
}

Arguments Arguments::nested(std::string_view name) const {
  const std::size_t k = position(name);
  return {parameters_[k].choices[values_[k].choice].parameters, values_[k].nested};
}

std::optional<Value> Reader::expand_block(const Block& block, const Expression& call, const Value& mask) {
  if (!stands_in(block, stage_)) {
    std::vector<std::string_view> stages;
    for (Stage stage : block.stages) stages.push_back(name(stage));
    return fail("block.stage", call, fmt::format("'{}' cannot stand in a {} line", block.name, name(stage_)),
                fmt::format("it belongs to {} lines", fmt::join(stages, ", ")));
  }
  const auto arguments = bind(block.parameters, call);
  if (!arguments) return {};
  emitter_.where = call.where;
  const std::size_t before = errors_.size();
  const Value value = block.expand({emitter_, stage_, x_.value_or(0), mask, *arguments, call.where, errors_});
  if (errors_.size() > before) return {};
  return value;
}

// Positions first, then names; everything wrong with the call is reported.
std::optional<Arguments> Reader::bind(std::span<const Parameter> parameters, const Expression& call) {
  std::vector<const Expression*> given(parameters.size());
  bool ok = true, named = false;
  for (std::size_t k = 0; k < call.operands.size(); ++k) {
    const Expression& operand = call.operands[k];
    const std::string& word = call.argument_names[k];
    named = named || !word.empty();
    std::size_t position = k;
    if (!word.empty()) {
      position = 0;
      while (position < parameters.size() && parameters[position].name != word) ++position;
    }
    if (position >= parameters.size() || (named && word.empty())) {
      const std::vector<std::string_view> known = names_of(parameters);
      const std::string list = known.empty() ? fmt::format("{} takes no arguments", call.text)
                                             : fmt::format("{} takes {}", call.text, fmt::join(known, ", "));
      if (word.empty() && named)
        fail("block.argument", operand,
             fmt::format("argument {} of {} needs a name, after a named one", k + 1, call.text), list);
      else if (word.empty())
        fail("block.argument", operand, fmt::format("{} has too many arguments", call.text), list);
      else
        fail("block.argument", operand, fmt::format("{} has no parameter '{}'", call.text, word),
             suggest(word, known, list));
      ok = false;
    } else if (given[position]) {
      fail("block.argument", operand,
           fmt::format("{} of {} is given twice", parameters[position].name, call.text),
           "remove one of them");
      ok = false;
    } else {
      given[position] = &operand;
    }
  }
  std::vector<Arguments::Argument> values;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Parameter& parameter = parameters[k];
    values.push_back(absent(parameter));
    if (given[k]) {
      const auto value = bind_argument(parameter, call, *given[k]);
      if (value) values.back() = *value;
      ok = ok && value;
    } else if (parameter.presence == Presence::required && ok) {
      fail("block.argument", call, fmt::format("{} needs {}: {}", call.text, parameter.name, parameter.about),
           fmt::format("write {}({} = ...)", call.text, parameter.name));
      ok = false;
    }
  }
  if (!ok) return {};
  return Arguments(parameters, std::move(values));
}

std::optional<Arguments::Argument> Reader::bind_argument(const Parameter& parameter, const Expression& owner,
                                                         const Expression& argument) {
  const auto wrapped = [](const Maybe& value) -> std::optional<Arguments::Argument> {
    if (!value) return {};
    return Arguments::Argument{value, 0, {}, {}};
  };
  switch (parameter.kind) {
    case ParameterKind::number:
    case ParameterKind::integer:
      return wrapped(bind_number(parameter, owner, argument));
    case ParameterKind::choice:
      return bind_choice(parameter, argument);
    case ParameterKind::index: {
      const Maybe value = read_without_x(argument);
      if (value && value->type() == ValueType::boolean)
        return fail("block.argument-type", argument,
                    fmt::format("{} of {} is {}, a bool; it must be a number", parameter.name, owner.text,
                                quoted(argument)));
      return wrapped(value);
    }
    case ParameterKind::per_head:
      return wrapped(bind_per_head(parameter, owner, argument));
    case ParameterKind::tensor:
      return bind_tensor(parameter, owner, argument);
  }
  ATTNFUSE_CHECK(false, "not a parameter kind");
}

std::optional<Value> Reader::read_without_x(const Expression& argument) {
  Reader reader(emitter_, errors_, stage_, {});
  reader.variables_ = variables_;
  reader.repeats_ = repeats_;
  return reader.read(argument);
}

std::optional<Value> Reader::bind_number(const Parameter& parameter, const Expression& owner,
                                         const Expression& argument) {
  const Maybe value = read_without_x(argument);
  if (!value) return {};
  const bool integer = parameter.kind == ParameterKind::integer;
  const bool type_fits = integer ? value->type() == ValueType::i32 : value->type() != ValueType::boolean;
  if (!value->is_constant() || !type_fits)
    return fail("block.argument-type", argument,
                fmt::format("{} of {} is {}; it must be {} known at compile time", parameter.name, owner.text,
                            quoted(argument), integer ? "an integer" : "a number"),
                value->is_constant() ? "" : "batch, sq, skv, indices and tensors are known at run time only");
  const double x = value->constant();
  if (x < parameter.least || x > parameter.most || (parameter.above_least && x == parameter.least))
    return fail("block.argument-range", argument,
                fmt::format("{} of {} is {}; it must {}", parameter.name, owner.text, number_text(x),
                            limit_text(parameter)));
  return integer ? *value : to_f32(*value);
}

std::optional<Arguments::Argument> Reader::bind_choice(const Parameter& parameter,
                                                       const Expression& argument) {
  std::vector<std::string_view> known;
  for (const Choice& choice : parameter.choices) known.push_back(choice.name);
  const bool is_word = argument.is(ExpressionKind::name) || argument.is(ExpressionKind::call);
  std::size_t k = 0;
  while (k < known.size() && known[k] != argument.text) ++k;
  if (!is_word || k == known.size())
    return fail("block.argument-choice", argument,
                fmt::format("{} is {}; it must be one of {}", parameter.name, quoted(argument),
                            fmt::join(known, ", ")),
                suggest(argument.text, known));
  const auto nested = bind(parameter.choices[k].parameters, argument);
  if (!nested) return {};
  return Arguments::Argument{{}, k, nested->values(), {}};
}

std::optional<Value> Reader::bind_per_head(const Parameter& parameter, const Expression& owner,
                                           const Expression& argument) {
  const TensorId tensor =
      argument.is(ExpressionKind::name) ? emitter_.graph.find_tensor(argument.text) : TensorId{};
  if (!tensor.valid()) {
    const Maybe value = read_without_x(argument);
    if (!value) return {};
    const bool axes_fit =
        value->is_constant() || emitter_.graph.node(value->node(emitter_)).axes.within({Axis::b, Axis::h});
    if (value->type() != ValueType::boolean && axes_fit) return to_f32(*value);
    return fail("block.argument-type", argument,
                fmt::format("{} of {} is {}; it must be one number for every head", parameter.name,
                            owner.text, quoted(argument)),
                "use a tensor f32[heads], or an expression of b and h");
  }
  const TensorInfo& info = emitter_.graph.tensor(tensor);
  const std::vector<Extent> by_size{{Size::heads}}, by_number{{std::int64_t(emitter_.graph.info().heads)}};
  if (value_type(info.dtype) != ValueType::f32 || (info.shape != by_size && info.shape != by_number))
    return fail(
        "block.argument-type", argument,
        fmt::format("{} of {} must be a tensor with one number for every head", parameter.name, owner.text),
        fmt::format("declare it: param {} : f32[heads]", info.name));
  emitter_.where = argument.where;
  const NodeId head = emitter_.graph.add(Index{Axis::h}, {}, argument.where);
  return Value(emitter_, emitter_.graph.add(Gather{tensor}, {head}, argument.where));
}

std::optional<Arguments::Argument> Reader::bind_tensor(const Parameter& parameter, const Expression& owner,
                                                       const Expression& argument) {
  const std::string wanted = tensor_text(parameter);
  const TensorId tensor =
      argument.is(ExpressionKind::name) ? emitter_.graph.find_tensor(argument.text) : TensorId{};
  if (!tensor.valid() || emitter_.graph.tensor(tensor).role != TensorRole::captured)
    return fail("block.argument-tensor", argument,
                fmt::format("{} of {} is {}; it must be the name of a captured tensor", parameter.name,
                            owner.text, quoted(argument)),
                fmt::format("declare it: param {} : {}",
                            argument.is(ExpressionKind::name) ? argument.text : "t", wanted));
  const TensorInfo& info = emitter_.graph.tensor(tensor);
  const std::size_t rank = info.shape.size();
  bool fits = value_type(info.dtype) == parameter.type && rank >= parameter.least_rank &&
              rank <= parameter.axes.size();
  for (std::size_t k = 0; fits && k < rank; ++k) {
    const TensorAxis& axis = parameter.axes[parameter.axes.size() - rank + k];
    const auto* number = std::get_if<std::int64_t>(&info.shape[k].value);
    if (axis.fixed) fits = number && *number <= axis.most;
    if (axis.size) {
      const std::optional<int> compiled = emitter_.graph.info().size(*axis.size);
      fits = number ? *number == 1 || *number == compiled : info.shape[k] == Extent{*axis.size};
    }
  }
  if (fits) return Arguments::Argument{{}, 0, {}, tensor};
  return fail("block.argument-tensor", argument,
              fmt::format("{} of {} must be a tensor {}", parameter.name, owner.text, wanted),
              parameter.axes.size() > parameter.least_rank
                  ? "leading dimensions may be left out, and any may be 1"
                  : "any dimension may be 1");
}

}  // namespace attnfuse
