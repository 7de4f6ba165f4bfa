#include "frontend/attention.h"

#include <doctest/doctest.h>

#include <cmath>

#include "frontend/parser.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

// The builder's program, its text and the text's program are the same.
void check_same(const Attention& built, std::string_view text) {
  const auto graph = built.build();
  REQUIRE_MESSAGE(graph, render(graph.errors()));
  const auto parsed = parse_one(text);
  REQUIRE_MESSAGE(parsed, render(parsed.errors(), text));
  CHECK(print(*graph) == print(*parsed));
  const auto reread = parse_spec(print(built.spec()));
  REQUIRE_MESSAGE(reread, render(reread.errors(), print(built.spec())));
  REQUIRE(reread->size() == 1);
  CHECK(reread->front() == built.spec());
}

TEST_CASE("Llama-3 in C++ equals Llama-3 in text") {
  check_same(attention("llama3_8b", {.heads = 32, .kv_heads = 8, .head_dim = 128, .dtype = DType::bf16})
                 .query(rope({.theta = 5e5}))
                 .key(rope({.theta = 5e5}))
                 .score(scale(1 / std::sqrt(128.0)))
                 .mask(causal())
                 .normalize(softmax()),
             "attention llama3_8b { heads 32 kv_heads 8 head_dim 128 dtype bf16 query rope(theta = 500000) "
             "key rope(theta = 5e5) score scale(1 / sqrt(128)) mask causal normalize softmax }");
}

TEST_CASE("storage forms in C++ equal those in text") {
  check_same(attention("stored", {.heads = 4, .head_dim = 32}).storage(ragged()).mask(causal()),
             "attention stored { heads 4 head_dim 32 storage ragged mask causal }");
  check_same(attention("stored", {.heads = 4, .head_dim = 32}).storage(ragged()).storage(paged(64)),
             "attention stored { heads 4 head_dim 32 storage ragged, paged(page_size = 64) }");
  const auto twice =
      attention("stored", {.heads = 4, .head_dim = 32}).storage(paged(8)).storage(paged(16)).build();
  REQUIRE_FALSE(twice);
  CHECK(twice.errors()[0].code == "storage.twice");
  const auto none = attention("stored", {.heads = 4, .head_dim = 32}).storage(paged(0)).build();
  REQUIRE_FALSE(none);
  CHECK(none.errors()[0].code == "storage.page-size");
}

TEST_CASE("every option of the C++ blocks reaches the program") {
  auto program = attention("options", {.heads = 6, .kv_heads = 2, .head_dim = 64, .v_head_dim = 32});
  const auto position = program.param("position", DType::i32, {Size::batch, Size::skv});
  const auto slopes = program.param("slopes", DType::f32, {Size::heads}, Gradient::wanted);
  const auto sink = program.param("sink", DType::bf16, {6});
  check_same(
      program.query(rope({.theta = 1e4, .pairs = RotaryPairs::interleaved, .dims = 32, .offset = 7}))
          .key(rope({.scaling = Llama3Scaling{.factor = 4}, .position = position(Key().b(), Key().j())}))
          .value([](Key x) { return x * select(x.d() < 16, 0.5, 1.0); })
          .score(scale(1 / sqrt(Score().head_dim())))
          .score(softcap(30.5))
          .score(alibi(slopes, Distance::absolute))
          .mask(causal(Align::top_left) || !window(8, 2, Align::top_left))
          .normalize(softmax_with_sink(sink)),
      R"(attention options {
  heads 6  kv_heads 2  head_dim 64  v_head_dim 32  dtype f16
  param position : i32[batch, skv]
  param slopes : f32[heads] grad
  param sink : bf16[6]
  query rope(theta = 10000, pairs = interleaved, dims = 32, offset = 7)
  key rope(scaling = llama3(factor = 4), position = position[b, j])
  value x * select(d < 16, 0.5, 1.0)
  score scale(1 / sqrt(head_dim)); score softcap(30.5); score alibi(slopes, absolute)
  mask causal(top_left) || !window(8, right = 2, align = top_left)
  normalize softmax(sink)
})");
}

TEST_CASE("every transform, score and normalizer of the C++ builder reaches the program") {
  auto program = attention("blocks", {.heads = 4, .kv_heads = 2, .head_dim = 32});
  const auto near = program.param("near", DType::f32, {16});
  const auto far = program.param("far", DType::f32, {16});
  const auto weight = program.param("weight", DType::bf16, {Size::head_dim});
  const auto mean = program.param("mean", DType::f32, {Size::batch, Size::sq});
  const auto table = program.param("table", DType::f32, {Size::heads, 9});
  const auto bias = program.param("bias", DType::f32, {1, Size::heads, Size::sq, Size::skv});
  const Query q;
  check_same(
      program.query(rope({.scaling = LinearScaling{4}}))
          .query(rope({.scaling = NtkScaling{4}}))
          .query(rope({.scaling = DynamicNtkScaling{2, 2048}}))
          .query(rope({.scaling = NtkByPartsScaling{8, 2048}}))
          .query(rope({.scaling = YarnScaling{.factor = 32, .original_context = 4096, .truncate = false}}))
          .query(rope({.scaling = LongRopeScaling{near, far, 4096, 32}}))
          .query(rope({.dims = 16, .distance = 16, .denominator = 32}))
          .query(xpos({.gamma = 0.5, .dims = 32, .offset = -100}))
          .query(norm({.weight = weight, .unit_offset = true}))
          .query(norm({.inverse = mean(q.b(), q.i())}))
          .query(scale_by_position(8192))
          .query(scale_by_log_position(512))
          .key(norm({.kind = NormKind::layer, .weight = weight, .bias = weight, .eps = 0.5}))
          .key(rope({.pairs = RotaryPairs::interleaved, .start = 16}))
          .key(rope({.pairs = RotaryPairs::interleaved,
                     .position = Key().j(),
                     .axes = RopeAxes{RopeAxes::Layout::axial, {8, 4, 4}},
                     .more_positions = {Key().j() % 7, Key().b()}}))
          .value(clip(8))
          .score(relative_bias(table))
          .score(relative_bias(table, Buckets::causal, 64, Align::top_left))
          .score(dense_bias(bias))
          .score(decay())
          .score(decay(0.5, Align::top_left))
          .normalize(softmax_plus_one()),
      R"(attention blocks { heads 4 kv_heads 2 head_dim 32
  param near : f32[16]
  param far : f32[16]
  param weight : bf16[head_dim]
  param mean : f32[batch, sq]
  param table : f32[heads, 9]
  param bias : f32[1, heads, sq, skv]
  query rope(scaling = linear(4)); query rope(scaling = ntk(4)); query rope(scaling = dynamic_ntk(2, 2048))
  query rope(scaling = ntk_by_parts(8, 2048)); query rope(scaling = yarn(32, 4096, truncate = no))
  query rope(scaling = longrope(near, far, 4096, 32)); query rope(dims = 16, distance = 16, denominator = 32)
  query xpos(0.5, dims = 32, offset = -100)
  query norm(weight = weight, unit_offset = yes); query norm(inverse = mean[b, i])
  query scale_by_position(8192); query scale_by_position(512, log_n)
  key norm(layer, weight, weight, eps = 0.5); key rope(pairs = interleaved, start = 16)
  key rope(pairs = interleaved, axes = axial(8, 4, 4), position = j, position_2 = j % 7, position_3 = b)
  value clip(8)
  score relative_bias(table); score relative_bias(table, causal(64), top_left); score dense_bias(bias)
  score decay; score decay(0.5, top_left)
  normalize softmax_plus_one
})");
  const auto weighed = [](const BlockCall& call, const std::string& text) {
    check_same(attention("t", {.heads = 4, .head_dim = 32}).normalize(call),
               "attention t { heads 4 head_dim 32 normalize " + text + " }");
  };
  weighed(sigmoid(), "sigmoid");
  weighed(sigmoid(Score().h() - 3), "sigmoid(h - 3)");
  weighed(relu(Relu::squared), "relu(squared = yes)");
  weighed(relu(0.5), "relu(0.5)");
  weighed(silu(), "silu");
  weighed(silu(1), "silu(1)");
  weighed(retention(), "retention");
  weighed(no_normalization(), "none");
}

TEST_CASE("every block after the product of the C++ builder reaches the program") {
  auto program = attention("after", {.heads = 4, .head_dim = 64});
  const auto seed = program.param("seed", DType::i32, {});
  const auto gate = program.param("gate", DType::f16, {Size::batch, Size::heads, Size::sq, Size::v_head_dim});
  const auto w = program.param("w", DType::f32, {Size::v_head_dim});
  const Query o;
  check_same(program.weights(dropout(0.1, seed()))
                 .weights([](Score x) { return x * select(x.i() == x.j(), 0.5, 1.0); })
                 .output(inverse_rope({.theta = 500, .dims = 32}))
                 .output(norm({.weight = w}))
                 .output(scale(0.2))
                 .output(clip(8))
                 .output(gated(gate(o.b(), o.h(), o.i(), o.d())))
                 .output([](Query x) { return x + 0.5 * x.i(); })
                 .output(max_logit()),
             R"(attention after {
  heads 4  head_dim 64  dtype f16
  param seed : i32
  param gate : f16[batch, heads, sq, v_head_dim]
  param w : f32[v_head_dim]
  weights dropout(0.1, seed); weights x * select(i == j, 0.5, 1.0)
  output inverse_rope(theta = 500, dims = 32); output norm(rms, weight = w, eps = 1e-6); output scale(0.2)
  output clip(8); output gated(gate[b, h, i, d]); output x + 0.5 * i; output max_logit })");
}

TEST_CASE("a differential program of the C++ builder is the one of the text") {
  auto by_head = attention("twice", {.heads = 4, .head_dim = 32});
  const auto lambda = by_head.param("lambda", DType::f32, {Size::heads});
  check_same(by_head.query(rope({})).mask(causal()).output(differential(lambda)).output(norm({})),
             R"(attention twice { heads 4 head_dim 32
  param lambda : f32[heads]
  query rope; mask causal; output differential(lambda); output norm(rms, eps = 1e-6) })");
  auto by_number = attention("twice", {.heads = 4, .head_dim = 32});
  const auto part = by_number.param("part", DType::f32, {});
  check_same(by_number.output(differential(exp(part()) - 0.2)),
             "attention twice { heads 4 head_dim 32 param part : f32 output differential(exp(part) - 0.2) }");
}

TEST_CASE("every mask of the C++ builder reaches the program") {
  auto program = attention("masks", {.heads = 4, .head_dim = 32});
  const auto ids = program.param("ids", DType::i32, {Size::batch, Size::skv});
  const auto own = program.param("own", DType::i32, {Size::batch, Size::sq});
  const auto offsets = program.param("offsets", DType::i32, {9});
  const auto table = program.param("table", DType::boolean, {1, Size::heads, 12, 20});
  const auto list = program.param("list", DType::i32, {Size::batch, 4, 12, 3});
  const auto seen = program.param("seen", DType::boolean, {Size::sq, Size::sq});
  const auto parent = program.param("parent", DType::i32, {Size::sq});
  const auto far = program.param("far", DType::boolean, {Size::heads});
  const Pair p;
  check_same(
      program.mask((chunk(64) && prefix(7, Align::top_left)) || document(ids))
          .mask(document(ids, own) || packed(offsets) || length(ids(0, p.b())))
          .mask(global(2) || dilated(3, Align::top_left))
          .mask(block_mask(table, 64, 32) || !block_list(list, 16, 8))
          .mask(tree(seen) || tree_path(parent, 4))
          .mask(select(far[p.h()], causal(), window(8)))
          .mask([&](Pair q) { return sum("n", 0, 3, [&](const Term& n) { return ids(n, q.j()); }) > 1; })
          .score([](Score x) {
            return x * bit_and(x.i(), 3) + bit_or(x.i(), x.j()) - bit_xor(x.i(), bit_not(x.j())) +
                   shift_left(x.i(), 2) * shift_right(x.j(), 1);
          }),
      R"(attention masks { heads 4 head_dim 32
  param ids : i32[batch, skv]
  param own : i32[batch, sq]
  param offsets : i32[9]
  param table : bool[1, heads, 12, 20]
  param list : i32[batch, 4, 12, 3]
  param seen : bool[sq, sq]
  param parent : i32[sq]
  param far : bool[heads]
  mask chunk(64) && prefix(7, top_left) || document(ids)
  mask document(ids, own) || packed(offsets) || length(ids[0, b])
  mask global(2) || dilated(3, top_left)
  mask block_mask(table, 64, 32) || !block_list(list, 16, 8)
  mask tree(seen) || tree_path(parent, 4)
  mask select(far[h], causal, window(8))
  mask sum(n in 0..3) ids[n, j] > 1
  score x * bit_and(i, 3) + bit_or(i, j) - bit_xor(i, bit_not(j)) + shift_left(i, 2) * shift_right(j, 1)
})");
}

TEST_CASE("expressions in C++ equal expressions in text") {
  auto program = attention("free", {.heads = 4, .head_dim = 32});
  const auto slope = program.param("slope", DType::f32, {Size::heads});
  const auto bias = program.param("bias", DType::f16, {Size::batch, Size::sq, Size::skv});
  const auto gain = program.param("gain", DType::f32, {});
  check_same(
      program.query([](Query x) { return -x * exp2(to_f32(x.i()) / 64) * rsqrt(x.d() + 1.0); })
          .score([&](Score x) { return x + slope[x.h()] * (x.j() - x.i()); })
          .score([&](Score x) { return x * gain() + clamp(bias(x.b(), x.i(), x.j()), -10, 10.0); })
          .score(
              [](Score x) { return tanh(x) + log(1 + abs(x)) * erf(x) - min(x, 3.0) * max(x, -2) / x.skv(); })
          .mask([](Pair p) { return p.i() >= p.j() && (floor_div(p.i(), 8) == p.j() % 8 || p.b() != 1); })
          .mask([](Pair p) { return !(p.j() > p.i() - 2) || true; }),
      R"(attention free { heads 4 head_dim 32
  param slope : f32[heads]
  param bias : f16[batch, sq, skv]
  param gain : f32
  query -x * exp2(to_f32(i) / 64) * rsqrt(d + 1.0)
  score x + slope[h] * (j - i)
  score x * gain + clamp(bias[b, i, j], -10, 10.0)
  score tanh(x) + log(1 + abs(x)) * erf(x) - min(x, 3.0) * max(x, -2) / skv
  mask i >= j && (i // 8 == j % 8 || b != 1)
  mask !(j > i - 2) || true
})");
}

TEST_CASE("a builder diagnostic points at the C++ call") {
  const auto program = attention("wrong", {.heads = 4, .head_dim = 32});
  const int line = __LINE__ + 1;
  const auto graph = program.score(softcap(-1)).build();
  REQUIRE_FALSE(graph);
  REQUIRE(graph.errors().size() == 1);
  const Diagnostic& error = graph.errors()[0];
  CHECK(error.code == "block.argument-range");
  CHECK(error.where.file == __FILE__);
  CHECK(error.where.line == line);
  CHECK(render(error) == std::string(__FILE__) + ":" + std::to_string(line) +
                             ": error[block.argument-range]: c of softcap is -1; it must be greater than 0");
}

TEST_CASE("an expression that grows without end is a diagnostic") {
  const auto program = attention("grows", {.heads = 4, .head_dim = 32});
  const auto deep = program
                        .score([](Score x) {
                          Term sum = x;
                          for (int k = 0; k < 5000; ++k) sum = sum + 1;
                          return sum;
                        })
                        .build();
  REQUIRE_FALSE(deep);
  CHECK(deep.errors()[0].code == "expression.too-large");
  const auto wide = program
                        .score([](Score x) {
                          Term sum = x;
                          for (int k = 0; k < 64; ++k) sum = sum + sum;
                          return sum;
                        })
                        .build();
  REQUIRE_FALSE(wide);
  CHECK(wide.errors()[0].code == "expression.too-large");
}

TEST_CASE("numbers that are none are a diagnostic") {
  const auto program = attention("nan", {.heads = 4, .head_dim = 32});
  CHECK_FALSE(program.score(scale(std::nan(""))).build());
  CHECK_FALSE(program.score(scale(INFINITY)).build());
  CHECK_FALSE(program.score([](Score x) { return x * 1e300; }).build());
  CHECK_FALSE(program.mask([](Pair p) { return p.i() < 1LL << 40; }).build());
}

}  // namespace
}  // namespace attnfuse
