#include "frontend/blocks/block_test.h"

namespace attnfuse {
namespace {

NormalizeKind kind_of(const StageValues& values) {
  return as<Normalize>(values.graph().node(find<Normalize>(values.graph())))->kind;
}

TEST_CASE("softmax is what a program without a normalize line does") {
  CHECK(kind_of(StageValues("")) == NormalizeKind::softmax);
  CHECK(print(StageValues("normalize softmax").graph()) == print(StageValues("").graph()));
  CHECK(print(StageValues("normalize softmax()").graph()) == print(StageValues("").graph()));
}

TEST_CASE("softmax takes its sink from a tensor or an expression of the head") {
  StageValues tensor("param s : bf16[8]; normalize softmax(sink = s)");
  tensor.tensors["s"] = {0, 1, 2, 3, 4, 5, 6, 7};
  CHECK(kind_of(tensor) == NormalizeKind::softmax_sink);
  CHECK(tensor.sink({.h = 6}) == 6);
  StageValues one("normalize softmax(sink = 0)"), expression("normalize softmax(h * 0.5)");
  CHECK(one.sink({.h = 3}) == 0);
  CHECK(expression.sink({.h = 3}) == 1.5);
}

TEST_CASE("a program writes o and lse") {
  const StageValues values("");
  CHECK(values.graph().outputs().size() == 2);
  CHECK(values.graph().output("o").valid());
  CHECK(values.graph().output("lse").valid());
}

}  // namespace
}  // namespace attnfuse
