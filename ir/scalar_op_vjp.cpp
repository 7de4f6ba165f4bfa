#include <numbers>

#include "ir/scalar_op_rules.h"

namespace attnfuse::vjp {
namespace {

NodeId multiply(Graph& graph, NodeId x, NodeId y) { return graph.apply(ScalarOp::mul, {x, y}); }
NodeId scaled(Graph& graph, double factor, NodeId x) { return multiply(graph, graph.constant(factor), x); }

// `grad` where the comparison holds, zero elsewhere.
NodeId where(Graph& graph, ScalarOp comparison, NodeId x, NodeId y, NodeId grad) {
  const NodeId condition = graph.apply(comparison, {x, y});
  return graph.apply(ScalarOp::select, {condition, grad, graph.constant(0)});
}

}  // namespace

Gradients zero(Graph& graph, Operands x, NodeId, NodeId) {
  Gradients zeros(x.size(), graph.constant(0));
  return zeros;
}

Gradients add(Graph&, Operands, NodeId, NodeId grad) { return {grad, grad}; }

Gradients sub(Graph& graph, Operands, NodeId, NodeId grad) {
  return {grad, graph.apply(ScalarOp::neg, {grad})};
}

Gradients mul(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {multiply(graph, grad, x[1]), multiply(graph, grad, x[0])};
}

Gradients div(Graph& graph, Operands x, NodeId result, NodeId grad) {
  const NodeId numerator = graph.apply(ScalarOp::div, {grad, x[1]});
  return {numerator, graph.apply(ScalarOp::neg, {multiply(graph, numerator, result)})};
}

Gradients neg(Graph& graph, Operands, NodeId, NodeId grad) { return {graph.apply(ScalarOp::neg, {grad})}; }

// Zero at zero.
Gradients abs(Graph& graph, Operands x, NodeId, NodeId grad) {
  const NodeId zero = graph.constant(0);
  const NodeId positive = where(graph, ScalarOp::gt, x[0], zero, grad);
  return {graph.apply(ScalarOp::sub, {positive, where(graph, ScalarOp::lt, x[0], zero, grad)})};
}

// Ties go to the first operand, so that the gradients always sum to `grad`.
Gradients min(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {where(graph, ScalarOp::le, x[0], x[1], grad), where(graph, ScalarOp::gt, x[0], x[1], grad)};
}

Gradients max(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {where(graph, ScalarOp::ge, x[0], x[1], grad), where(graph, ScalarOp::lt, x[0], x[1], grad)};
}

Gradients exp(Graph& graph, Operands, NodeId result, NodeId grad) { return {multiply(graph, grad, result)}; }

Gradients exp2(Graph& graph, Operands, NodeId result, NodeId grad) {
  return {scaled(graph, std::numbers::ln2, multiply(graph, grad, result))};
}

Gradients log(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {graph.apply(ScalarOp::div, {grad, x[0]})};
}

Gradients log2(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {scaled(graph, std::numbers::log2e, graph.apply(ScalarOp::div, {grad, x[0]}))};
}

Gradients sqrt(Graph& graph, Operands, NodeId result, NodeId grad) {
  return {scaled(graph, 0.5, graph.apply(ScalarOp::div, {grad, result}))};
}

// The derivative of x^(-1/2) is -1/2 x^(-1/2) / x.
Gradients rsqrt(Graph& graph, Operands x, NodeId result, NodeId grad) {
  const NodeId slope = graph.apply(ScalarOp::div, {result, x[0]});
  return {scaled(graph, -0.5, multiply(graph, grad, slope))};
}

Gradients tanh(Graph& graph, Operands, NodeId result, NodeId grad) {
  const NodeId slope = graph.apply(ScalarOp::sub, {graph.constant(1), multiply(graph, result, result)});
  return {multiply(graph, grad, slope)};
}

Gradients sin(Graph& graph, Operands x, NodeId, NodeId grad) {
  return {multiply(graph, grad, graph.apply(ScalarOp::cos, {x[0]}))};
}

Gradients cos(Graph& graph, Operands x, NodeId, NodeId grad) {
  const NodeId sine = graph.apply(ScalarOp::sin, {x[0]});
  return {graph.apply(ScalarOp::neg, {multiply(graph, grad, sine)})};
}

Gradients select(Graph& graph, Operands x, NodeId, NodeId grad) {
  const NodeId zero = graph.constant(0);
  return {NodeId{}, graph.apply(ScalarOp::select, {x[0], grad, zero}),
          graph.apply(ScalarOp::select, {x[0], zero, grad})};
}

}  // namespace attnfuse::vjp
