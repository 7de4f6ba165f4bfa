#include "frontend/attention.h"

#include <cmath>

#include "frontend/expand.h"

namespace attnfuse {
namespace {

// Arguments of a block, in the order given.
class Call {
 public:
  explicit Call(std::string block) : block_(std::move(block)) {}

  Call& positional(Expression value) { return named({}, std::move(value)); }
  Call& named(std::string name, Expression value) {
    names_.push_back(std::move(name));
    values_.push_back(std::move(value));
    return *this;
  }
  // A block without arguments is written without brackets.
  Expression expression() const {
    return values_.empty() ? make_name(block_) : make_call(block_, values_, names_);
  }

 private:
  std::string block_;
  std::vector<Expression> values_;
  std::vector<std::string> names_;
};

// Whole numbers as integers: they read better, and blocks take either.
Expression argument(double value) {
  return make_number(value, value == std::floor(value) && std::fabs(value) <= INT32_MAX);
}

Expression scaling(const Llama3Scaling& scaling) {
  return Call("llama3")
      .named("factor", argument(scaling.factor))
      .named("low_freq_factor", argument(scaling.low_freq_factor))
      .named("high_freq_factor", argument(scaling.high_freq_factor))
      .named("original_context", argument(scaling.original_context))
      .expression();
}

BlockCall alibi_call(Call call, Distance distance) {
  if (distance == Distance::absolute) call.named("distance", make_name("absolute"));
  return {call.expression()};
}

void align_call(Call& call, Align align) {
  if (align == Align::top_left) call.named("align", make_name("top_left"));
}

void place(Expression& expression, const Where& where) {
  expression.where = where;
  for (Expression& operand : expression.operands) place(operand, where);
}

}  // namespace

BlockCall rope(const RopeOptions& options) {
  Call call("rope");
  call.named("theta", argument(options.theta));
  if (options.pairs == RotaryPairs::interleaved) call.named("pairs", make_name("interleaved"));
  if (options.dims) call.named("dims", argument(*options.dims));
  if (options.scaling) call.named("scaling", scaling(*options.scaling));
  if (options.position) call.named("position", options.position->expression());
  if (options.offset) call.named("offset", options.offset->expression());
  return {call.expression()};
}

BlockCall scale(double c) { return {Call("scale").positional(argument(c)).expression()}; }
BlockCall scale(const Term& c) { return {Call("scale").positional(c.expression()).expression()}; }
BlockCall softcap(double c) { return {Call("softcap").positional(argument(c)).expression()}; }

BlockCall alibi(Distance distance) { return alibi_call(Call("alibi"), distance); }
BlockCall alibi(const Captured& slopes, Distance distance) {
  return alibi_call(Call("alibi").named("slopes", make_name(slopes.name())), distance);
}
BlockCall alibi(const Term& slopes, Distance distance) {
  return alibi_call(Call("alibi").named("slopes", slopes.expression()), distance);
}

Term causal(Align align) {
  Call call("causal");
  align_call(call, align);
  return Term(call.expression());
}

Term window(int left, int right, Align align) {
  Call call("window");
  call.positional(argument(left));
  if (right != 0) call.named("right", argument(right));
  align_call(call, align);
  return Term(call.expression());
}

BlockCall softmax() { return {make_name("softmax")}; }
BlockCall softmax_with_sink(const Captured& sink) {
  return {Call("softmax").named("sink", make_name(sink.name())).expression()};
}
BlockCall softmax_with_sink(const Term& sink) {
  return {Call("softmax").named("sink", sink.expression()).expression()};
}

Attention::Attention(std::string name, const AttentionShape& shape, Where where) {
  spec_.info.name = std::move(name);
  spec_.info.heads = shape.heads;
  spec_.info.kv_heads = shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  spec_.info.head_dim = shape.head_dim;
  spec_.info.v_head_dim = shape.v_head_dim == 0 ? shape.head_dim : shape.v_head_dim;
  spec_.info.dtype = shape.dtype;
  spec_.info.where = std::move(where);
}

Captured Attention::param(std::string name, DType dtype, const std::vector<Dimension>& shape,
                          Gradient gradient, Where where) {
  Param param{name, dtype, {}, gradient == Gradient::wanted, std::move(where)};
  for (const Dimension& dimension : shape) param.shape.push_back(dimension.extent);
  spec_.params.push_back(std::move(param));
  return Captured(std::move(name));
}

Attention Attention::with(Stage stage, Expression expression, const Where& where) const {
  place(expression, where);
  Attention result = *this;
  result.spec_.lines.push_back({stage, std::move(expression)});
  return result;
}

Result<Graph> Attention::build() const { return expand(spec_); }

Attention attention(std::string name, const AttentionShape& shape, Where where) {
  return {std::move(name), shape, std::move(where)};
}

}  // namespace attnfuse
