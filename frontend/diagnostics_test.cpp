// Every mistake a program can hold, with the whole text a user sees.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "frontend/attention.h"
#include "frontend/parser.h"

namespace attnfuse {
namespace {

std::string rendered(const std::string& text) {
  const auto graphs = parse(text, "t.attn");
  return graphs ? "no mistake" : render(graphs.errors(), text);
}

struct Mistake {
  std::string_view lines;  // inside: attention t {\n  heads 4  head_dim 32\n  ...\n}\n
  std::string_view rendered;
};

// clang-format off: as a user sees them
constexpr Mistake kMistakes[] = {
    {R"(output differential(0.5) output differential(0.5))",
     R"(t.attn:3:35: error[output.twice]: a program is differential once
    output differential(0.5) output differential(0.5)
                                    ^~~~~~~~~~~~
  fix: remove one of the lines)"},
    {R"(output scale(2) output differential(0.5))",
     R"(t.attn:3:26: error[output.order]: differential takes the attention result itself, not what output lines made
    output scale(2) output differential(0.5)
                           ^~~~~~~~~~~~
  fix: make it the first output line)"},
    {R"(output differential(j))",
     R"(t.attn:3:23: error[block.argument-type]: lambda of differential is 'j'; it must be one number for every head
    output differential(j)
                        ^
  fix: use a tensor f32[heads], or an expression of b and h)"},
    {R"(param q2 : f32[heads] output differential(q2))",
     R"(t.attn:3:9: error[param.name]: 'q2' already has a meaning and cannot name a tensor
    param q2 : f32[heads] output differential(q2)
          ^~
  fix: choose another name)"},
    {R"(storage ragged, ragged)",
     R"(t.attn:3:19: error[storage.twice]: storage is ragged twice
    storage ragged, ragged
                    ^~~~~~
  fix: name each form once)"},
    {R"(storage paged(page_size = 0))",
     R"(t.attn:3:29: error[storage.page-size]: page_size is 0; it must lie between 1 and 2147483647
    storage paged(page_size = 0)
                              ^
  fix: give the rows of a page of keys, such as 16)"},
    {R"(storage pages(16))",
     R"(t.attn:3:11: error[storage.form]: 'pages' is not a storage form
    storage pages(16)
            ^~~~~
  fix: did you mean 'paged'?)"},
    {R"(storage paged(many))",
     R"(t.attn:3:17: error[syntax.expected]: expected an integer, the rows of a page, found 'many'
    storage paged(many)
                  ^~~~
  fix: write paged(page_size = 16))"},
    {R"(storage paged)",
     R"(t.attn:4:1: error[syntax.expected]: expected '(', found '}'
  }
  ^
  fix: write paged(page_size = 16))"},
    {R"(storage paged(16) param page_table : i32[batch])",
     R"(t.attn:3:27: error[tensor.name]: "page_table" is taken, or not a name of letters, digits and underscores
    storage paged(16) param page_table : i32[batch]
                            ^~~~~~~~~~)"},
    {R"(score scale(0.5) @@ 3)",
     R"(t.attn:3:20: error[syntax.character]: '@' is not part of the language
    score scale(0.5) @@ 3
                     ^~
  fix: remove it
t.attn:3:23: error[syntax.expected]: expected an operator or the next line, found '3'
    score scale(0.5) @@ 3
                        ^)"},
    {R"(score x * 1.5.2)",
     R"(t.attn:3:13: error[syntax.number]: '1.5.2' is not a number
    score x * 1.5.2
              ^~~~~
  fix: write numbers like 8, 0.125 or 5e5)"},
    {R"(score x + 1e999)",
     R"(t.attn:3:13: error[syntax.number-range]: 1e999 does not fit a double
    score x + 1e999
              ^~~~~
  fix: use a number between 1e-300 and 1e300)"},
    {R"(score x + 3000000000)",
     R"(t.attn:3:13: error[syntax.number-range]: 3000000000 is larger than the largest integer, 2147483647
    score x + 3000000000
              ^~~~~~~~~~
  fix: write it with a point or an exponent to make it a real number)"},
    {R"(score x +)",
     R"(t.attn:4:1: error[syntax.expected]: expected an expression, found '}'
  }
  ^)"},
    {R"(score (x + 1)",
     R"(t.attn:4:1: error[syntax.expected]: expected ')', found '}'
  }
  ^)"},
    {R"(score x 4)",
     R"(t.attn:3:11: error[syntax.expected]: expected an operator or the next line, found '4'
    score x 4
            ^)"},
    {R"(scor scale(2))",
     R"(t.attn:3:3: error[syntax.unknown-line]: no line starts with 'scor'
    scor scale(2)
    ^~~~
  fix: did you mean 'score'?)"},
    {R"(mask 0 <= i - j < 4)",
     R"(t.attn:3:19: error[syntax.comparison-chain]: comparisons do not chain
    mask 0 <= i - j < 4
                    ^
  fix: write a <= b && b < c)"},
    {R"(heads 8)",
     R"(t.attn:3:3: error[header.twice]: heads is given twice
    heads 8
    ^~~~~
  fix: remove one of the lines)"},
    {R"(kv_heads 3)",
     R"(t.attn:3:12: error[program.kv-heads]: kv_heads is 3, which does not divide heads (4)
    kv_heads 3
             ^
  fix: use one of 1, 2, 4)"},
    {R"(kv_heads x)",
     R"(t.attn:3:12: error[syntax.expected]: expected an integer after kv_heads, found 'x'
    kv_heads x
             ^)"},
    {R"(v_head_dim 20)",
     R"(t.attn:3:14: error[program.head-dim]: v_head_dim is 20; it must be a multiple of 8 between 8 and 576
    v_head_dim 20
               ^~
  fix: pad the tensors to 24)"},
    {R"(dtype f8)",
     R"(t.attn:3:9: error[syntax.dtype]: 'f8' is not an element type
    dtype f8
          ^~
  fix: use f16, bf16, f32, i32 or bool)"},
    {R"(dtype i32)",
     R"(t.attn:3:9: error[program.dtype]: dtype is i32; attention runs in f16, bf16 or f32
    dtype i32
          ^~~)"},
    {R"(param q : f32[heads])",
     R"(t.attn:3:9: error[param.name]: 'q' already has a meaning and cannot name a tensor
    param q : f32[heads]
          ^
  fix: choose another name)"},
    {R"(param a : f32[heads]; param a : f32)",
     R"(t.attn:3:31: error[param.name]: tensor 'a' is declared twice
    param a : f32[heads]; param a : f32
                                ^
  fix: choose another name)"},
    {R"(param a : f32[head])",
     R"(t.attn:3:17: error[param.extent]: 'head' is not a size
    param a : f32[head]
                  ^~~~
  fix: did you mean 'heads'?)"},
    {R"(param a f32)",
     R"(t.attn:3:11: error[syntax.expected]: expected ':', found 'f32'
    param a f32
            ^~~
  fix: write param name : f32[heads])"},
    {R"(param a : f32[0])",
     R"(t.attn:3:9: error[tensor.extent]: "a" has a dimension of 0; it must lie between 1 and 2147483647
    param a : f32[0]
          ^)"},
    {R"(score x + y)",
     R"(t.attn:3:13: error[expression.unknown-name]: 'y' means nothing here
    score x + y
              ^
  fix: declare it: param y : f32[heads])"},
    {R"(score x + slop[h]; param slope : f32[heads])",
     R"(t.attn:3:13: error[expression.unknown-name]: there is no tensor 'slop'
    score x + slop[h]; param slope : f32[heads]
              ^~~~
  fix: did you mean 'slope'?)"},
    {R"(param slope : f32[heads]; score x + slope)",
     R"(t.attn:3:39: error[expression.index]: 'slope' is a tensor with 1 dimension
    param slope : f32[heads]; score x + slope
                                        ^~~~~
  fix: index it, as in slope[h])"},
    {R"(param slope : f32[heads]; score x + slope[h, i])",
     R"(t.attn:3:39: error[gather.rank]: "slope" has 1 dimensions, but 2 indices are given
    param slope : f32[heads]; score x + slope[h, i]
                                        ^~~~~)"},
    {R"(param slope : f32[heads]; score x + slope[x])",
     R"(t.attn:3:39: error[gather.index]: index 1 of "slope" is f32; it must be i32
    param slope : f32[heads]; score x + slope[x]
                                        ^~~~~
  fix: round with to_i32(...))"},
    {R"(score x && true)",
     R"(t.attn:3:11: error[expression.type]: 'x' is f32; '&&' takes bool
    score x && true
            ^~
  fix: compare it, as in a != 0)"},
    {R"(score x + (i < j))",
     R"(t.attn:3:11: error[expression.type]: 'i < j' is bool; '+' takes numbers
    score x + (i < j)
            ^
  fix: convert it with to_f32(...), or use &&, || and !)"},
    {R"(score x % 2)",
     R"(t.attn:3:11: error[expression.type]: 'x' is f32; '%' takes i32
    score x % 2
            ^
  fix: use floor(a / b), or a - b * floor(a / b))"},
    {R"(score i // 0 + x)",
     R"(t.attn:3:11: error[expression.division]: 'i // 0' divides by zero
    score i // 0 + x
            ^~)"},
    {R"(score x + 2147483647 * 2)",
     R"(t.attn:3:24: error[expression.constant]: '2147483647 * 2' is 4294967294, which does not fit i32
    score x + 2147483647 * 2
                         ^
  fix: write one of the numbers with a point, to compute in f32)"},
    {R"(score x / (1 / 0))",
     R"(t.attn:3:16: error[expression.constant]: '1 / 0' is inf, which does not fit f32
    score x / (1 / 0)
                 ^)"},
    {R"(score i < j)",
     R"(t.attn:3:11: error[expression.unused-x]: 'i < j' does not use x: the score so far would be lost
    score i < j
            ^
  fix: x is the value so far; start from it, as in x * 0.5)"},
    {R"(mask i + j)",
     R"(t.attn:3:10: error[expression.type]: 'i + j' is i32; a mask expression must be bool
    mask i + j
           ^
  fix: compare it, as in a != 0)"},
    {R"(mask x > 0)",
     R"(t.attn:3:8: error[expression.no-x]: x has no meaning in this mask expression
    mask x > 0
         ^
  fix: a mask may depend on b, h, i, j, sizes and captured tensors)"},
    {R"(score i - j)",
     R"(t.attn:3:11: error[expression.unused-x]: 'i - j' does not use x: the score so far would be lost
    score i - j
            ^
  fix: x is the value so far; start from it, as in x * 0.5)"},
    {R"(score min(x))",
     R"(t.attn:3:9: error[expression.arity]: min takes 2 arguments, not 1
    score min(x)
          ^~~)"},
    {R"(score abs(v = x))",
     R"(t.attn:3:17: error[expression.arity]: abs is a function; its arguments have no names
    score abs(v = x)
                  ^
  fix: remove 'v =')"},
    {R"(query x * j)",
     R"(t.attn:3:13: error[expression.axes]: index j cannot be used in a query expression, which may depend on {b,h,i,d}
    query x * j
              ^)"},
    {R"(key x * i)",
     R"(t.attn:3:11: error[expression.axes]: index i cannot be used in a key expression, which may depend on {b,g,j,d}
    key x * i
            ^)"},
    {R"(score x * d)",
     R"(t.attn:3:13: error[expression.axes]: index d cannot be used in a score expression, which may depend on {b,h,i,j}
    score x * d
              ^)"},
    {R"(query rop(theta = 1e4))",
     R"(t.attn:3:9: error[block.unknown]: 'rop' is neither a block nor a function
    query rop(theta = 1e4)
          ^~~
  fix: did you mean 'rope'?)"},
    {R"(query softcap(50))",
     R"(t.attn:3:9: error[block.stage]: 'softcap' cannot stand in a query line
    query softcap(50)
          ^~~~~~~
  fix: it belongs to score lines)"},
    {R"(score x + softcap(50))",
     R"(t.attn:3:13: error[block.position]: 'softcap' is a block and no part of an expression
    score x + softcap(50)
              ^~~~~~~
  fix: give it a line of its own)"},
    {R"(score softcap)",
     R"(t.attn:3:9: error[block.argument]: softcap needs c: the bound
    score softcap
          ^~~~~~~
  fix: write softcap(c = ...))"},
    {R"(score softcap(0))",
     R"(t.attn:3:17: error[block.argument-range]: c of softcap is 0; it must be greater than 0
    score softcap(0)
                  ^)"},
    {R"(score softcap(1, 2))",
     R"(t.attn:3:20: error[block.argument]: softcap has too many arguments
    score softcap(1, 2)
                     ^
  fix: softcap takes c)"},
    {R"(score softcap(cap = 50))",
     R"(t.attn:3:23: error[block.argument]: softcap has no parameter 'cap'
    score softcap(cap = 50)
                        ^~
  fix: softcap takes c)"},
    {R"(score softcap(50, c = 50))",
     R"(t.attn:3:25: error[block.argument]: c of softcap is given twice
    score softcap(50, c = 50)
                          ^~
  fix: remove one of them)"},
    {R"(score softcap(c = 50, 50))",
     R"(t.attn:3:25: error[block.argument]: argument 2 of softcap needs a name, after a named one
    score softcap(c = 50, 50)
                          ^~
  fix: softcap takes c)"},
    {R"(score softcap(sq))",
     R"(t.attn:3:17: error[block.argument-type]: c of softcap is 'sq'; it must be a number known at compile time
    score softcap(sq)
                  ^~
  fix: batch, sq, skv, indices and tensors are known at run time only)"},
    {R"(mask window(1.5))",
     R"(t.attn:3:15: error[block.argument-type]: left of window is '1.5'; it must be an integer known at compile time
    mask window(1.5)
                ^~~)"},
    {R"(mask window(0))",
     R"(t.attn:3:15: error[block.argument-range]: left of window is 0; it must lie between 1 and 1073741824
    mask window(0)
                ^)"},
    {R"(query rope(pairs = halves))",
     R"(t.attn:3:22: error[block.argument-choice]: pairs is 'halves'; it must be one of half, interleaved
    query rope(pairs = halves)
                       ^~~~~~)"},
    {R"(score x + sum(n in 0..skv) n)",
     R"(t.attn:3:25: error[expression.sum-range]: 'sum(n in 0..skv) n' sums up to 'skv', which is no integer known at compile time
    score x + sum(n in 0..skv) n
                          ^~~
  fix: use numbers, heads, kv_heads, head_dim or v_head_dim)"},
    {R"(score x + sum(h in 0..3) h)",
     R"(t.attn:3:13: error[expression.sum-variable]: 'h' already has a meaning and cannot be the variable of a sum
    score x + sum(h in 0..3) h
              ^~~
  fix: choose another name)"},
    {R"(score x + sum(n in 0..9000) (x * n))",
     R"(t.attn:3:13: error[expression.too-large]: 'sum(n in 0..9000) x * n' written out has 27000 parts; the limit is 16384
    score x + sum(n in 0..9000) (x * n)
              ^~~
  fix: sum fewer, or use a captured tensor)"},
    {R"(score x + sum(n in 0...4) n)",
     R"(t.attn:3:25: error[expression.sum-range]: 'sum(n in 0..0.4) n' sums up to '0.4', which is no integer known at compile time
    score x + sum(n in 0...4) n
                          ^~
  fix: use numbers, heads, kv_heads, head_dim or v_head_dim)"},
    {R"(score x + bit_and(x, 3))",
     R"(t.attn:3:21: error[expression.type]: 'x' is f32; bit_and takes i32
    score x + bit_and(x, 3)
                      ^
  fix: round it with to_i32(...))"},
    {R"(mask select(i < j, 1, i == j))",
     R"(t.attn:3:27: error[expression.type]: 'i == j' is bool; select takes two of one type
    mask select(i < j, 1, i == j)
                            ^~
  fix: compare the number, or convert the bool with to_f32(...))"},
    {R"(score dense_bias(7))",
     R"(t.attn:3:20: error[block.argument-tensor]: bias of dense_bias is '7'; it must be the name of a captured tensor
    score dense_bias(7)
                     ^
  fix: declare it: param t : f32[batch, heads, sq, skv])"},
    {R"(param w : f32[7] score dense_bias(w))",
     R"(t.attn:3:37: error[block.argument-tensor]: bias of dense_bias must be a tensor f32[batch, heads, sq, skv]
    param w : f32[7] score dense_bias(w)
                                      ^
  fix: leading dimensions may be left out, and any may be 1)"},
    {R"(param m : i32[heads, 3] score relative_bias(m))",
     R"(t.attn:3:47: error[block.argument-tensor]: table of relative_bias must be a tensor f32[heads, buckets]
    param m : i32[heads, 3] score relative_bias(m)
                                                ^
  fix: leading dimensions may be left out, and any may be 1)"},
    {R"(query rope(start = 4, dims = 8))",
     R"(t.attn:3:9: error[rope.start]: half pairs start at element 0, not at 4
    query rope(start = 4, dims = 8)
          ^~~~
  fix: use pairs = interleaved, or put the elements that turn first)"},
    {R"(query rope(dims = 8, distance = 3))",
     R"(t.attn:3:9: error[rope.distance]: distance is 3; for 4 pairs in a head of 32 it must lie between 4 and 16
    query rope(dims = 8, distance = 3)
          ^~~~)"},
    {R"(query rope(pairs = interleaved, start = 8, dims = 30))",
     R"(t.attn:3:9: error[rope.count]: elements 8 up to 38 are paired; they must lie inside the 32 of the head
    query rope(pairs = interleaved, start = 8, dims = 30)
          ^~~~
  fix: rotate a part of the head dim that has whole pairs)"},
    {R"(query rope(dims = 8, axes = chunked(2, 3)))",
     R"(t.attn:3:9: error[rope.axes]: the sections of axes have 5 pairs; 4 pairs turn
    query rope(dims = 8, axes = chunked(2, 3))
          ^~~~
  fix: sections count pairs, two elements each)"},
    {R"(param w : f32[7] query norm(weight = w))",
     R"(t.attn:3:26: error[block.argument-tensor]: weight of norm must be a tensor f32[heads, head_dim] in a query line
    param w : f32[7] query norm(weight = w)
                           ^~~~
  fix: the first dimension may be left out, and any may be 1)"},
    {R"(query rope(dims = 5))",
     R"(t.attn:3:9: error[rope.count]: 5 elements are paired; it must be an even number between 2 and 32
    query rope(dims = 5)
          ^~~~
  fix: rotate a part of the head dim that has whole pairs)"},
    {R"(query rope(dims = 64))",
     R"(t.attn:3:9: error[rope.count]: 64 elements are paired; it must be an even number between 2 and 32
    query rope(dims = 64)
          ^~~~
  fix: rotate a part of the head dim that has whole pairs)"},
    {R"(query rope(position = i < 4))",
     R"(t.attn:3:27: error[block.argument-type]: position of rope is 'i < 4', a bool; it must be a number
    query rope(position = i < 4)
                            ^)"},
    {R"(query rope(scaling = llama3(fctor = 2)))",
     R"(t.attn:3:39: error[block.argument]: llama3 has no parameter 'fctor'
    query rope(scaling = llama3(fctor = 2))
                                        ^
  fix: did you mean 'factor'?)"},
    {R"(param s : f32[kv_heads]; normalize softmax(sink = s))",
     R"(t.attn:3:53: error[block.argument-type]: sink of softmax must be a tensor with one number for every head
    param s : f32[kv_heads]; normalize softmax(sink = s)
                                                      ^
  fix: declare it: param s : f32[heads])"},
    {R"(normalize softmax(sink = j))",
     R"(t.attn:3:28: error[block.argument-type]: sink of softmax is 'j'; it must be one number for every head
    normalize softmax(sink = j)
                             ^
  fix: use a tensor f32[heads], or an expression of b and h)"},
    {R"(normalize softmax; normalize softmax)",
     R"(t.attn:3:32: error[normalize.twice]: a program normalizes once
    normalize softmax; normalize softmax
                                 ^~~~~~~
  fix: remove one of the lines)"},
    {R"(normalize sofmax)",
     R"(t.attn:3:13: error[block.unknown]: 'sofmax' is not a normalize block
    normalize sofmax
              ^~~~~~
  fix: did you mean 'softmax'?)"},
};

// Whole texts.
constexpr Mistake kTexts[] = {
    {"attention t { head_dim 32 }",
     R"(t.attn:1:11: error[header.missing]: attention t has no heads
  attention t { head_dim 32 }
            ^
  fix: add a line such as 'heads 32')"},
    {"attention t { heads 70000 head_dim 32 }",
     R"(t.attn:1:21: error[program.heads]: heads is 70000; it must lie between 1 and 65535
  attention t { heads 70000 head_dim 32 }
                      ^~~~~)"},
    {"attention t { heads 4 head_dim 584 }",
     R"(t.attn:1:32: error[program.head-dim]: head_dim is 584; it must be a multiple of 8 between 8 and 576
  attention t { heads 4 head_dim 584 }
                                 ^~~
  fix: use 576)"},
    {"attention t { heads 4 head_dim 32",
     R"(t.attn:1:34: error[syntax.expected]: expected '}', found the end of the text
  attention t { heads 4 head_dim 32
                                   ^
  fix: close attention t)"},
    {"heads 4",
     R"(t.attn:1:1: error[syntax.expected]: expected 'attention', found 'heads'
  heads 4
  ^~~~~)"},
    {"attention { heads 4 head_dim 32 }",
     R"(t.attn:1:11: error[syntax.expected]: expected the program's name, found '{'
  attention { heads 4 head_dim 32 }
            ^)"},
};
// clang-format on

std::string in_program(std::string_view lines) {
  return fmt::format("attention t {{\n  heads 4  head_dim 32\n  {}\n}}\n", lines);
}

TEST_CASE("every mistake is reported at its place with its value and its fix") {
  for (const Mistake& mistake : kMistakes) {
    CAPTURE(mistake.lines);
    CHECK(rendered(in_program(mistake.lines)) == mistake.rendered);
  }
  for (const Mistake& mistake : kTexts) {
    CAPTURE(mistake.lines);
    CHECK(rendered(std::string(mistake.lines)) == mistake.rendered);
  }
}

TEST_CASE("mistakes in several lines are reported together, in order of place") {
  CHECK(rendered("attention t {\n  heads 4\n  head_dim 32\n  query rop(1)\n  score x * y\n  mask causal(\n"
                 "  normalize softmax(sink = s)\n}\n") ==
        R"(t.attn:4:9: error[block.unknown]: 'rop' is neither a block nor a function
    query rop(1)
          ^~~
  fix: did you mean 'rope'?
t.attn:5:13: error[expression.unknown-name]: 'y' means nothing here
    score x * y
              ^
  fix: declare it: param y : f32[heads]
t.attn:7:3: error[syntax.expected]: expected an expression, found 'normalize'
    normalize softmax(sink = s)
    ^~~~~~~~~
t.attn:7:28: error[expression.unknown-name]: 's' means nothing here
    normalize softmax(sink = s)
                             ^
  fix: declare it: param s : f32[heads])");
}

// Mistakes too large to print.
std::string code_of(const std::string& text) {
  const auto graph = parse_one(text);
  return graph ? "no mistake" : graph.errors()[0].code;
}

std::set<std::string> large_mistakes() {
  std::string lines = "attention t { heads 1 head_dim 8 ", params = lines, deep = lines + "score x";
  for (std::size_t k = 0; k <= kMaxLines; ++k) lines += "score x * 2\n";
  for (std::size_t k = 0; k <= kMaxParams; ++k) params += fmt::format("param p{} : f32\n", k);
  for (int k = 0; k < 200; ++k) deep += " + 1";
  auto many = attention("many", {.heads = 1, .head_dim = 8});
  for (std::size_t k = 0; k <= kMaxLines; ++k) many = many.score(scale(2.0));
  return {code_of(lines + "}"), code_of(params + "}"),
          code_of(deep + "}"),  code_of(std::string(2 << 20, ' ')),
          code_of(""),          many.build().errors()[0].code};
}

TEST_CASE("every code in the frontend is tested here") {
  std::set<std::string> tested = large_mistakes();
  const std::regex code_in_text(R"(error\[([a-z]+\.[a-z-]+)\])");
  std::string all;
  for (const Mistake& mistake : kMistakes) all += mistake.rendered;
  for (const Mistake& mistake : kTexts) all += mistake.rendered;
  for (std::sregex_iterator found(all.begin(), all.end(), code_in_text), end; found != end; ++found)
    tested.insert((*found)[1]);
  const std::regex code_in_source(
      R"RE("((syntax|header|param|program|expression|block|normalize|storage)\.[a-z-]+)")RE");
  int codes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ATTNFUSE_SOURCE_DIR "/frontend")) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".cpp") || path.ends_with("_test.cpp")) continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator found(source.begin(), source.end(), code_in_source), end; found != end;
         ++found) {
      ++codes;
      CHECK_MESSAGE(tested.contains((*found)[1]), path << ": " << (*found)[1].str());
    }
  }
  CHECK(codes > 30);
}

}  // namespace
}  // namespace attnfuse
