#include "conformance/random_program.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "conformance/family.h"

namespace attnfuse::conformance {
namespace {

// Pieces of programs. In them
//   <a|b|c>                one of the words
//   {f[heads]}             a new captured tensor of some float type, i32 or bool as said; a name ahead of a
//   {list:i32[batch, 9]}   colon is the start of its own, which says what integers it holds (data.cpp)
//   @ H D                  of a transform: its row's index, heads and head dim
constexpr std::string_view kTurns[] = {
    "rope(theta = <100|10000|500000>, pairs = <half|interleaved>)",
    "rope(dims = <4|8|12|16>, pairs = <half|interleaved>, offset = <0|3|700>)",
    "rope(dims = 8, scaling = <linear(4)|ntk(3)|dynamic_ntk(2, 30)|ntk_by_parts(8, 64)|yarn(8, 64)|llama3>)",
    "rope(theta = 150000, scaling = yarn(32, 64, truncate = <yes|no>), pairs = <half|interleaved>)",
    "rope(dims = 16, scaling = longrope({f[8]}, {f[8]}, 50, factor = 4))",
    "rope(dims = 16, pairs = interleaved, start = <0|2|8>)",
    "rope(dims = <6|8>, distance = <4|7>, denominator = 16)",
    "rope(dims = 16, axes = <chunked|interleaved>(<4, 4|3, 5>), position = @ // 3, position_2 = @ % 3)",
    "rope(dims = 16, pairs = interleaved, axes = axial(5, 3), position = @ // 7, position_2 = @ % 7)",
    "rope(position = {i32[batch, 200]}[b, @])",
    "xpos(scale_base = <100|512>, pairs = <half|interleaved>, dims = 8)",
    "xpos",
};
constexpr std::string_view kTransforms[] = {
    "norm",
    "norm(<rms|layer|l2>, eps = <0.01|1e-6>)",
    "norm(<rms|layer>, weight = {f[D]}, unit_offset = <yes|no>)",
    "norm(layer, weight = {f[H, D]}, bias = {f[D]})",
    "norm(inverse = 0.5 + abs({f[batch, 200]}[b, @]))",
    "clip(<0.5|1.5>)",
    "x * <0.5|1.25>",
    "x + 0.25",
    "x * (1 + 0.01 * @ - 0.1 * h)",
    "x * {f[H, D]}[h, d]",
    "x + {f[batch, H, 200]}[b, h, @]",
    "select(d < 9, x, 0.5 * x)",
};
constexpr std::string_view kQueryTransforms[] = {"scale_by_position(<16|20>)",
                                                 "scale_by_position(16, kind = log_n)"};
constexpr std::string_view kScores[] = {
    "scale(<0.125|0.3|2>)",
    "softcap(<0.5|5|50>)",
    "alibi",
    "alibi(slopes = {f[heads]}, distance = <signed|absolute>)",
    "alibi(slopes = 0.01 * (h + b))",
    "relative_bias({f[heads, 16]}, <bidirectional|causal>(max_distance = 40))",
    "relative_bias({f[1, 41]}, align = <top_left|bottom_right>)",
    "dense_bias({f[batch, heads, sq, skv]})",
    "dense_bias({f[<1|heads>, sq, <1|skv>]})",
    "dense_bias({f[skv]})",
    "decay",
    "decay(gamma = 1 / (1 + abs({f[heads]}[h])), align = <top_left|bottom_right>)",
    "x + {f[heads]}[h] * (j - i)",
    "x - 0.01 * abs(i - j)",
    "x + {f[heads, 64]}[h, 32 + i - j]",
    "x + {f[batch, heads, 5, 7]}[b, h, {i32[batch, skv]}[b, j] // 2, i % 7]",
    "x + sum(n in 0..3) {f[3, heads]}[n, h] * n",
    "x + 0.1 * ((i - j) // 3 + (j - i) % 5)",
    "min(x, 3) + 0.02 * bit_xor(i, j)",
    "0.5 * x + sin(x)",
};
constexpr std::string_view kMasks[] = {
    "causal",
    "causal(<top_left|bottom_right>)",
    "window(<1|2|9|20|33|64>)",
    "window(<3|17|40>, <1|5|30>)",
    "window(<9|33>, 2, align = top_left)",
    "chunk(<5|16|21|64>)",
    "prefix(<0|9|40>)",
    "prefix(20 * {i32[batch]}[b])",
    "document({i32[batch, skv]})",
    "document({shuffled:i32[batch, skv]})",
    "document({i32[batch, skv]}, query_ids = {i32[1, sq]})",
    "packed({offsets:i32[6]})",
    "length(11 + 30 * {i32[batch]}[b])",
    "global(<1|3>)",
    "dilated(<2|3|7>)",
    "block_mask({bool[batch, heads, 5, 9]}, 16, 16)",
    "block_mask({bool[5, 5]}, 32, 32)",
    "block_list({list:i32[batch, 1, 9, 2]}, 16, 16)",
    "tree({bool[batch, sq, sq]})",
    "tree_path({parent:i32[batch, sq]}, 4)",
    "{bool[skv]}[j]",
    "{padding:bool[batch, skv]}[b, j]",
    "{bool[sq, skv]}[i, j]",
    "{bool[heads]}[h]",
    "i >= j",
    "i - j < <12|40>",
    "j % <2|3> == <0|1>",
    "i // 16 == j // 16",
    "j < <0|5|30|1000>",
    "j >= <4|64|70>",
    "i % 3 != 0",
    "i == j",
    "h == 1",
    "b == 0",
    "max(i, j) < 40",
    "abs(i - j) > 3",
    "i * j < 600",
};
constexpr std::string_view kNormalizers[] = {
    "softmax",
    "softmax",
    "softmax(sink = {f[heads]}[h])",
    "softmax(sink = {f[heads]})",
    "softmax(sink = 0.5 * h)",
    "softmax_plus_one",
    "sigmoid",
    "sigmoid(bias = <-2|1>)",
    "relu(scale = <0.05|1>, squared = <yes|no>)",
    "silu",
    "retention",
    "none",
};
constexpr std::string_view kWeights[] = {
    "dropout(<0.1|0.5>, {i32})",    "dropout(0.25 + 0.5 * abs(sin({f})), {i32[2]}[1])",
    "x * {f[heads, skv]}[h, j]",    "x * (1 + 0.1 * (i % 2))",
    "x * select(i == j, 0.0, 1.0)",
};
constexpr std::string_view kDifferential[] = {
    "differential(<0.2|-0.8>)",
    "differential({f[heads]})",
    "differential(exp(0.3 * {f}) - 0.2 * {f[batch, heads]}[b, h])",
};
constexpr std::string_view kOutputs[] = {
    "gated({f[batch, heads, sq, v_head_dim]}[b, h, i, d])",
    "gated({f[batch, heads, sq]}[b, h, i])",
    "x * (1 + {f[heads, v_head_dim]}[h, d]) - 0.01 * i",
    "norm(eps = 0.1)",
    "norm(<rms|layer>, weight = {f[v_head_dim]}, eps = 0.1)",
    "inverse_rope(dims = 8, pairs = <half|interleaved>)",
    "inverse_rope(dims = 8, position = {i32[batch, sq]}[b, i])",
    "clip(0.5)",
    "scale(<0.25|2>)",
    "tanh(x)",
    "x * x",
    "select(d < 9, x, 0.5 * x)",
};

struct Stage {
  std::string_view index, heads, dim;
};
constexpr Stage kQuery{"i", "heads", "head_dim"}, kKey{"j", "kv_heads", "head_dim"},
    kValue{"j", "kv_heads", "v_head_dim"}, kNone{"", "", ""};

class Composer {
 public:
  explicit Composer(Random& random) : random_(random) {}

  RandomProgram compose() {
    const Dims dims = random_dims();
    if (one_in(2)) turn();
    if (one_in(3)) line("query", transform(kQuery, true), kQuery);
    if (one_in(3)) line("key", transform(kKey, false), kKey);
    if (one_in(4)) line("value", transform(kValue, false), kValue);
    if (one_in(5)) turn();
    const std::string_view normalizer = pick(kNormalizers);
    const bool is_softmax = normalizer.starts_with("softmax");
    if (!is_softmax) body_ += "score scale(0.1) ";
    for (int n = std::max(0, int(random_.below(5)) - 2); n > 0; --n) line("score", pick(kScores));
    if (!one_in(4)) line("mask", mask(int(random_.below(3))));
    if (one_in(10)) line("mask", pick(kMasks));
    line("normalize", normalizer);
    const bool has_weights = one_in(5);
    if (has_weights) line("weights", pick(kWeights));
    bool has_output = false;
    if (one_in(8)) line("output", pick(kDifferential));
    for (int n = std::max(0, int(random_.below(4)) - 1); n > 0; --n)
      if (one_in(2)) {
        line("output", pick(kOutputs));
        has_output = true;
      }
    if (is_softmax && one_in(6)) body_ += "output max_logit ";
    return {program("random", dims, params_ + body_), is_softmax,
            !has_output || (is_softmax && !has_weights)};
  }

 private:
  bool one_in(int n) { return random_.below(n) == 0; }
  template <std::size_t n>
  std::string_view pick(const std::string_view (&pieces)[n]) {
    return pieces[random_.below(std::int64_t(n))];
  }

  Dims random_dims() {
    constexpr int kHeadDims[] = {16, 24, 32, 40, 64, 72, 96, 128};
    constexpr int kOften = 5;
    constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
    const auto head_dim = [&] { return kHeadDims[random_.below(one_in(3) ? 8 : kOften)]; };
    Dims dims;
    dims.kv_heads = int(1 + random_.below(3));
    dims.heads = dims.kv_heads * int(1 + random_.below(5));
    dims.head_dim = head_dim();
    if (one_in(3)) dims.v_head_dim = head_dim();
    dims.dtype = kDtypes[random_.below(3)];
    return dims;
  }

  std::string_view transform(const Stage&, bool is_query) {
    return is_query && one_in(6) ? pick(kQueryTransforms) : pick(kTransforms);
  }

  // Queries and keys turn alike, but for one in eight.
  void turn() {
    const std::string_view piece = pick(kTurns);
    const std::string text = filled(piece, kKey);
    const auto along = [&](std::string_view index) {
      std::string placed = text;
      for (char& c : placed)
        if (c == '@') c = index[0];
      return placed;
    };
    const std::int64_t which = random_.below(8);
    if (which != 0) body_ += "query " + along("i") + " ";
    if (which != 1) body_ += "key " + along("j") + " ";
  }

  void line(std::string_view keyword, std::string_view piece, const Stage& stage = kNone) {
    std::string text = filled(piece, stage);
    for (char& c : text)
      if (c == '@') c = stage.index[0];
    body_ += fmt::format("{} {} ", keyword, text);
  }

  std::string mask(int depth) {
    if (depth == 0) return std::string(one_in(6) ? "!(" : "(") + filled(pick(kMasks), kNone) + ")";
    const std::string first = mask(depth - 1), second = mask(int(random_.below(depth)));
    if (one_in(6)) return fmt::format("select({}[h], {}, {})", filled("{bool[heads]}", kNone), first, second);
    return fmt::format("{}({} {} {})", one_in(8) ? "!" : "", first, one_in(2) ? "&&" : "||", second);
  }

  // The piece with its choices made and its tensors declared.
  std::string filled(std::string_view piece, const Stage& stage) {
    std::string text;
    for (std::size_t at = 0; at < piece.size(); ++at) {
      const char c = piece[at];
      const char close = c == '<' && at + 1 < piece.size() && piece[at + 1] != ' ' && piece[at + 1] != '='
                             ? '>'
                         : c == '{' ? '}'
                                    : '\0';
      if (close == '\0') {
        text += c;
        continue;
      }
      const std::size_t end = piece.find(close, at);
      const std::string_view inside = piece.substr(at + 1, end - at - 1);
      text += close == '>' ? chosen(inside) : declared(filled(inside, stage), stage);
      at = end;
    }
    return text;
  }

  std::string chosen(std::string_view words) {
    std::vector<std::string_view> all;
    for (std::size_t at = 0; at <= words.size();) {
      const std::size_t end = std::min(words.find('|', at), words.size());
      all.push_back(words.substr(at, end - at));
      at = end + 1;
    }
    return std::string(all[std::size_t(random_.below(std::int64_t(all.size())))]);
  }

  std::string declared(const std::string& inside, const Stage& stage) {
    constexpr std::string_view kFloats[] = {"f32", "f16", "bf16"};
    const std::size_t colon = inside.find(':');
    const std::string name =
        fmt::format("{}{}", colon == std::string::npos ? "t" : inside.substr(0, colon), count_++);
    std::string type = colon == std::string::npos ? inside : inside.substr(colon + 1);
    if (type[0] == 'f') type.replace(0, 1, pick(kFloats));
    std::string shaped;
    for (char c : type)
      shaped += c == 'H' ? std::string(stage.heads) : c == 'D' ? std::string(stage.dim) : std::string(1, c);
    params_ += fmt::format("param {} : {} ", name, shaped);
    return name;
  }

  Random& random_;
  std::string params_, body_;
  int count_ = 0;
};

}  // namespace

RandomProgram random_program(Random& random) { return Composer(random).compose(); }

}  // namespace attnfuse::conformance
