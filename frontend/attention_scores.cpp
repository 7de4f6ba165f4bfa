// Scores and normalizers of the C++ builder.
#include "frontend/call.h"

namespace attnfuse {
namespace {

BlockCall alibi_call(Call call, Distance distance) {
  if (distance == Distance::absolute) call.named("distance", make_name("absolute"));
  return {call.expression()};
}

BlockCall aligned(Call call, Align align) {
  if (align == Align::top_left) call.named("align", make_name("top_left"));
  return {call.expression()};
}

BlockCall relu_call(Call call, Relu relu) {
  if (relu == Relu::squared) call.named("squared", make_name("yes"));
  return {call.expression()};
}

}  // namespace

BlockCall scale(double c) { return {Call("scale").positional(argument(c)).expression()}; }
BlockCall scale(const Term& c) { return {Call("scale").positional(argument(c)).expression()}; }
BlockCall softcap(double c) { return {Call("softcap").positional(argument(c)).expression()}; }

BlockCall alibi(Distance distance) { return alibi_call(Call("alibi"), distance); }
BlockCall alibi(const Captured& slopes, Distance distance) {
  return alibi_call(Call("alibi").named("slopes", argument(slopes)), distance);
}
BlockCall alibi(const Term& slopes, Distance distance) {
  return alibi_call(Call("alibi").named("slopes", argument(slopes)), distance);
}

BlockCall relative_bias(const Captured& table, Align align) {
  return aligned(Call("relative_bias").positional(argument(table)), align);
}
BlockCall relative_bias(const Captured& table, Buckets buckets, int max_distance, Align align) {
  Call kind(buckets == Buckets::bidirectional ? "bidirectional" : "causal");
  kind.named("max_distance", argument(max_distance));
  return aligned(Call("relative_bias").positional(argument(table)).positional(kind.expression()), align);
}
BlockCall dense_bias(const Captured& bias) {
  return {Call("dense_bias").positional(argument(bias)).expression()};
}
BlockCall decay(Align align) { return aligned(Call("decay"), align); }
BlockCall decay(const Term& gamma, Align align) {
  return aligned(Call("decay").positional(argument(gamma)), align);
}

BlockCall dropout(const Term& p, const Term& seed) {
  return {Call("dropout").positional(argument(p)).positional(argument(seed)).expression()};
}
BlockCall gated(const Term& by) { return {Call("gated").positional(argument(by)).expression()}; }
BlockCall differential(const Term& lambda) {
  return {Call("differential").positional(argument(lambda)).expression()};
}
BlockCall differential(const Captured& lambda) {
  return {Call("differential").positional(argument(lambda)).expression()};
}
BlockCall max_logit() { return {make_name("max_logit")}; }

BlockCall softmax() { return {make_name("softmax")}; }
BlockCall softmax_with_sink(const Captured& sink) {
  return {Call("softmax").named("sink", argument(sink)).expression()};
}
BlockCall softmax_with_sink(const Term& sink) {
  return {Call("softmax").named("sink", argument(sink)).expression()};
}
BlockCall softmax_plus_one() { return {make_name("softmax_plus_one")}; }
BlockCall sigmoid() { return {make_name("sigmoid")}; }
BlockCall sigmoid(const Term& bias) { return {Call("sigmoid").named("bias", argument(bias)).expression()}; }
BlockCall relu(Relu relu) { return relu_call(Call("relu"), relu); }
BlockCall relu(const Term& scale, Relu relu) {
  return relu_call(Call("relu").named("scale", argument(scale)), relu);
}
BlockCall silu() { return {make_name("silu")}; }
BlockCall silu(const Term& scale) { return {Call("silu").named("scale", argument(scale)).expression()}; }
BlockCall retention() { return {make_name("retention")}; }
BlockCall no_normalization() { return {make_name("none")}; }

}  // namespace attnfuse
