#include "frontend/parser.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <fmt/format.h>

#include "frontend/expand.h"
#include "ir/analysis.h"

namespace attnfuse {
namespace {

std::vector<std::string> examples() {
  std::vector<std::string> texts;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(ATTNFUSE_SOURCE_DIR "/frontend/examples")) {
    if (entry.path().extension() != ".attn") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

Spec spec_of(std::string_view text) {
  const auto specs = parse_spec(text);
  REQUIRE_MESSAGE(specs, render(specs.errors(), text));
  REQUIRE(specs->size() == 1);
  return specs->front();
}

// The one expression of a score line, written back.
std::string reprinted(const std::string& expression) {
  return print(spec_of("attention t { heads 1 head_dim 8 score " + expression + " }").lines.at(0).expression);
}

std::string graph_text(std::string_view text) {
  const auto graph = parse_one(text);
  REQUIRE_MESSAGE(graph, render(graph.errors(), text));
  return print(*graph);
}

TEST_CASE("every example parses, prints and reads back as itself") {
  const auto texts = examples();
  REQUIRE(texts.size() >= 6);
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Spec spec = spec_of(text);
    CHECK(spec_of(print(spec)) == spec);
    CHECK(print(spec_of(print(spec))) == print(spec));
    CHECK(graph_text(text) == graph_text(print(spec)));
  }
}

TEST_CASE("lines may be separated by semicolons, line ends or nothing") {
  const std::string lines = graph_text(
      "attention t {\n heads 4\n kv_heads 2\n head_dim 64\n dtype f16\n # remark }\n"
      " query rope(theta = 1e4)\r\n score scale(0.125)\n mask causal\n"
      " normalize softmax\n}\n");
  CHECK(lines ==
        graph_text("attention t { heads 4; kv_heads 2; head_dim 64; dtype f16; query rope(theta=1e4); score "
                   "scale(0.125); mask causal; normalize softmax }"));
  CHECK(lines == graph_text("attention t{heads 4 kv_heads 2 head_dim 64 dtype f16 query rope(theta=1e4)score "
                            "scale(.125)mask causal normalize softmax;;}"));
  CHECK(
      lines ==
      graph_text("attention t { heads 4 kv_heads 2 head_dim 64 query rope(theta\n=\n1e4) score\nscale(0.125)"
                 " mask causal }"));
}

TEST_CASE("operators bind as in C, and group to the left") {
  CHECK(reprinted("x+1-2") == "x + 1 - 2");
  CHECK(reprinted("x-(1-2)") == "x - (1 - 2)");
  CHECK(reprinted("(x*2)+3*(i//2)%4/5") == "x * 2 + 3 * (i // 2) % 4 / 5");
  CHECK(reprinted("-x*-(-2)") == "-x * --2");
  CHECK(reprinted("-(x+1)") == "-(x + 1)");
  CHECK(reprinted("x + select(!(i<j)&&b==0||h!=1, 1., 2e0)") ==
        "x + select(!(i < j) && b == 0 || h != 1, 1.0, 2.0)");
  CHECK(reprinted("x + to_f32((i<j||i>j)&&(b<=h))") == "x + to_f32((i < j || i > j) && b <= h)");
  CHECK(reprinted("((((x))))") == "x");
}

TEST_CASE("a sum takes the factors that follow it, and is written out") {
  CHECK(reprinted("x+sum(n in 0..3)n*2-1") == "x + (sum(n in 0..3) n * 2) - 1");
  CHECK(reprinted("sum(n in 1+1..head_dim)(x+n)") == "sum(n in 1 + 1..head_dim) (x + n)");
  CHECK(reprinted("x*sum(n in 0..2)sum(m in 0..n)m") == "x * (sum(n in 0..2) (sum(m in 0..n) m))");
  const auto folded = [](const std::string& expression) {
    return graph_text("attention t { heads 4 head_dim 8 score x * " + expression + " }");
  };
  CHECK(folded("(sum(n in 0..heads) sum(m in n..2) (n + m))") == folded("3"));
  CHECK(folded("(1 + sum(n in 3..3) n)") == folded("1"));
  CHECK(folded("(sum(n in -2..1) 0.5 * n)") == folded("-1.5"));
}

TEST_CASE("bits, shifts and choices between predicates are functions") {
  const auto text = [](const std::string& score) {
    return graph_text("attention t { heads 4 head_dim 8 score x * " + score + " }");
  };
  CHECK(text("bit_and(-3, 6)") == text("4"));
  CHECK(text("bit_or(bit_xor(5, 1), bit_not(-3))") == text("6"));
  CHECK(text("shift_right(shift_left(-5, 3), 4)") == text("(-3)"));
  CHECK(text("(-7 // 2 * 10 + -7 % 2)") == text("(-39)"));
}

TEST_CASE("numbers keep their type and value") {
  CHECK(reprinted("x + 5e5") == "x + 500000.0");
  CHECK(reprinted("x + 1E-7") == "x + 1e-07");
  CHECK(reprinted("x + 2147483647") == "x + 2147483647");
  CHECK(reprinted("x + 0.1") == "x + 0.1");
  CHECK(reprinted("x + 1.5e+30") == "x + 1.5e+30");
}

TEST_CASE("constants fold in double precision") {
  const std::string text = graph_text("attention t { heads 1 head_dim 128 score scale(1 / sqrt(head_dim)) }");
  CHECK(text.find("constant 0.08838834764831843 : f32") != std::string::npos);
  CHECK(text.find("sqrt") == std::string::npos);
  const std::string typed =
      graph_text("attention t { heads 1 head_dim 8 score x * (7 // 2) + 7 / 2 + -7 % 4 }");
  CHECK(typed.find("constant 3.0 : f32") != std::string::npos);
  CHECK(typed.find("constant 3.5 : f32") != std::string::npos);
  CHECK(typed.find("constant 1.0 : f32") != std::string::npos);
}

TEST_CASE("a text may hold several programs, or none") {
  const auto two = parse("attention a { heads 1 head_dim 8 } attention b { heads 2 head_dim 16 }");
  REQUIRE(two);
  CHECK(two->size() == 2);
  CHECK(two->at(1).info().name == "b");
  CHECK(parse("")->empty());
  CHECK(parse(" # nothing\n")->empty());
  CHECK_FALSE(parse_one(""));
  CHECK_FALSE(parse_one("attention a { heads 1 head_dim 8 } attention b { heads 2 head_dim 16 }"));
}

TEST_CASE("header fields have defaults") {
  const Spec spec = spec_of("attention t { heads 6 head_dim 48 }");
  CHECK(spec.info.kv_heads == 6);
  CHECK(spec.info.v_head_dim == 48);
  CHECK(spec.info.dtype == DType::f16);
  CHECK(spec_of("attention t { v_head_dim 8 head_dim 48 heads 6 }").info.v_head_dim == 8);
}

TEST_CASE("nested, long and hostile texts end in diagnostics") {
  const auto nested = [](std::string_view open, std::string_view close, int times) {
    std::string text = "attention t { heads 1 head_dim 8 score ";
    for (int k = 0; k < times; ++k) text += open;
    text += "x";
    for (int k = 0; k < times; ++k) text += close;
    return text + " }";
  };
  CHECK(parse_one(nested("(", ")", 90)));
  CHECK(parse_one(nested("", " + 1", 90)));
  for (const auto& [open, close] :
       {std::pair("(", ")"), std::pair("-", ""), std::pair("", " + 1"), std::pair("abs(", ")"),
        std::pair("1 + ", ""), std::pair("2 * (1 + ", ")"), std::pair("a[", "]"), std::pair("-(", ")")}) {
    CAPTURE(open);
    const auto graph = parse_one(nested(open, close, 20000));
    REQUIRE_FALSE(graph);
    CHECK(graph.errors()[0].code == "expression.too-large");
  }
  CHECK_FALSE(parse_one(std::string(2 << 20, ' ')));
  CHECK_FALSE(parse_one(std::string(1 << 20, '(')));
  CHECK_FALSE(parse_one(
      "attention t { heads 2147483647 head_dim 2147483647 v_head_dim 2147483647 query rope score alibi }"));
  CHECK_FALSE(parse_one("attention t { heads 0 kv_heads 0 head_dim 0 query rope score alibi }"));
  std::string many = "attention t { heads 1 head_dim 8 ";
  for (std::size_t k = 0; k <= kMaxLines; ++k) many += "score x * 2\n";
  CHECK_FALSE(parse_one(many + "}"));
  std::string params = "attention t { heads 1 head_dim 8 ";
  for (std::size_t k = 0; k <= kMaxParams; ++k) params += fmt::format("param p{} : f32\n", k);
  CHECK_FALSE(parse_one(params + "}"));
  std::string wide = "attention t { heads 1 head_dim 8 ";
  for (int k = 0; k < 200; ++k) wide += "score (x + h * i) * (j + 2.5) - (b * x + tanh(x)) * exp2(x - i)\n";
  CHECK_FALSE(parse_one(wide + "}"));
}

// Cuts, repeats, replaces and swaps pieces of the examples. Nothing may crash; what still parses must print
// and read back as itself; what does not must say where.
TEST_CASE("mutated examples parse back as themselves or end in diagnostics") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::size_t limit) {
    return std::size_t(random() % std::max<std::size_t>(limit, 1));
  };
  const auto texts = examples();
  constexpr std::string_view kPieces[] = {
      "(",         ")",      "[",           "]",    "{",        "}",      ",",
      ";",         "=",      "==",          "-",    "!",        "x",      "j",
      "h",         "1e9999", "99999999999", "0",    "\n",       "#",      "\xff",
      "attention", "param ", "mask ",       " f32", "rope",     "causal", "//",
      "%",         "0.5",    " : ",         "sq",   "softcap(", "scale(", "sum(n in 0..3) ",
      "..",        "in"};
  int parsed = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = texts[below(texts.size())];
    const std::size_t edits = 1 + below(4);
    for (std::size_t edit = 0; edit < edits; ++edit) {
      const std::size_t from = below(text.size()), length = below(12);
      switch (below(5)) {
        case 0:
          text.erase(from, length);
          break;
        case 1:
          text.insert(from, kPieces[below(std::size(kPieces))]);
          break;
        case 2:
          text.insert(below(text.size()), text.substr(from, length));
          break;
        case 3:
          text.replace(from, std::min<std::size_t>(length, 4), kPieces[below(std::size(kPieces))]);
          break;
        default:
          if (!text.empty()) text[from] = char(random());
      }
    }
    CAPTURE(text);
    const auto graphs = parse(text);
    const auto specs = parse_spec(text);
    if (!graphs) {
      REQUIRE_FALSE(graphs.errors().empty());
      REQUIRE(graphs.errors().size() <= 200);
      for (const Diagnostic& error : graphs.errors()) {
        REQUIRE(error.where.line > 0);
        REQUIRE(error.where.column > 0);
        REQUIRE_FALSE(error.message.empty());
      }
      REQUIRE_FALSE(render(graphs.errors(), text).empty());
    }
    if (!specs) continue;
    for (const Spec& spec : *specs) {
      const std::string printed = print(spec);
      CAPTURE(printed);
      const auto again = parse_spec(printed);
      REQUIRE_MESSAGE(again, render(again.errors(), printed));
      REQUIRE(again->size() == 1);
      REQUIRE(again->front() == spec);
      ++parsed;
    }
  }
  CHECK(parsed > 100);
}

}  // namespace
}  // namespace attnfuse
