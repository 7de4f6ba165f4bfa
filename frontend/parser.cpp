// file      = { "attention" NAME "{" { line [";"] } "}" }
// line      = ("heads" | "kv_heads" | "head_dim" | "v_head_dim") INTEGER
//           | "dtype" TYPE
//           | "param" NAME ":" TYPE [ "[" extent { "," extent } "]" ] [ "grad" ]
//           | ("query" | "key" | "value" | "score" | "mask" | "normalize") expression
// extent    = INTEGER | size
// expression, loosest first:  ||   &&   < <= > >= == !=   + -   * / // %   unary - !
// primary   = NUMBER | NAME | NAME "(" [ argument { "," argument } ] ")" | NAME "[" expression { "," ... }
// "]"
//           | "(" expression ")"
// argument  = [ NAME "=" ] expression
//
// Line ends are blanks: what follows an operand is an operator or begins the next line. Required: heads,
// head_dim. kv_heads defaults to heads, v_head_dim to head_dim, dtype to f16.
#include "frontend/parser.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "frontend/expand.h"
#include "frontend/lexer.h"
#include "frontend/suggest.h"

namespace attnfuse {
namespace {

constexpr std::size_t kMaxText = 1U << 20U;
constexpr std::size_t kMaxErrors = 50;
constexpr std::size_t kMaxPrograms = 256;

constexpr std::string_view kLineWords[] = {"heads", "kv_heads", "head_dim", "v_head_dim",
                                           "dtype", "param",    "query",    "key",
                                           "value", "score",    "mask",     "normalize"};
// Line words that mean nothing in expressions: a safe place to go on after a mistake.
constexpr std::string_view kStops[] = {"dtype", "param", "query",     "key",      "value",
                                       "score", "mask",  "normalize", "attention"};

struct Parsed {
  Spec spec;
  bool complete = true;  // header and params are; lines with mistakes are left out
};

std::string shown(const Token& token) {
  constexpr std::size_t kShown = 40;
  if (token.kind == TokenKind::end) return "the end of the text";
  if (token.text.size() > kShown) return fmt::format("'{}...'", token.text.substr(0, kShown));
  return fmt::format("'{}'", token.text);
}

bool is_stop(const Token& token) {
  return token.kind == TokenKind::name && std::ranges::find(kStops, token.text) != std::end(kStops);
}

bool is_line_word(const Token& token) {
  return token.kind == TokenKind::name && std::ranges::find(kLineWords, token.text) != std::end(kLineWords);
}

class Parser {
 public:
  Parser(std::vector<Token> tokens, Diagnostics& errors) : tokens_(std::move(tokens)), errors_(errors) {}

  std::vector<Parsed> run() {
    std::vector<Parsed> programs;
    while (peek().kind != TokenKind::end && errors_.size() < kMaxErrors) {
      if (!peek().is("attention")) {
        fail_expected("'attention'");
        while (peek().kind != TokenKind::end && !peek().is("attention")) next();
        continue;
      }
      programs.push_back(program());
      if (programs.size() <= kMaxPrograms) continue;
      fail("syntax.too-large", fmt::format("more than {} programs", kMaxPrograms), peek(), "split the file");
      break;
    }
    return programs;
  }

 private:
  // ---- tokens and errors ----

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token next() {
    const Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool accept(std::string_view text) {
    if (!peek().is(text)) return false;
    next();
    return true;
  }
  std::nullopt_t fail(std::string code, std::string message, const Token& at, std::string fix = {}) {
    errors_.push_back({std::move(code), std::move(message), at.where, std::move(fix)});
    return std::nullopt;
  }
  std::nullopt_t fail_expected(std::string_view what, std::string fix = {}) {
    return fail("syntax.expected", fmt::format("expected {}, found {}", what, shown(peek())), peek(),
                std::move(fix));
  }
  bool expect(std::string_view text, std::string fix = {}) {
    if (accept(text)) return true;
    fail_expected(fmt::format("'{}'", text), std::move(fix));
    return false;
  }
  std::optional<Token> expect_name(std::string_view what) {
    if (peek().kind == TokenKind::name && !is_stop(peek())) return next();
    return fail_expected(what);
  }

  // To the next line, as far as it can be told.
  void recover() {
    while (peek().kind != TokenKind::end && !peek().is("}") && !is_stop(peek())) {
      if (peek().starts_line && is_line_word(peek())) return;
      if (accept(";")) return;
      next();
    }
  }

  // ---- programs ----

  Parsed program() {
    next();
    Parsed parsed;
    fields_ = {};
    if (peek().kind == TokenKind::name) {
      const Token name = next();
      parsed.spec.info.name = name.text;
      parsed.spec.info.where = name.where;
    } else {
      fail_expected("the program's name");
      parsed.complete = false;
    }
    if (!expect("{")) {
      recover();
      parsed.complete = false;
    }
    while (errors_.size() < kMaxErrors) {
      if (accept(";")) continue;
      if (accept("}")) break;
      if (peek().kind == TokenKind::end || peek().is("attention")) {
        fail_expected("'}'", fmt::format("close attention {}", parsed.spec.info.name));
        parsed.complete = false;
        break;
      }
      const std::size_t before = at_;
      if (!line(parsed)) {
        if (at_ == before) next();
        recover();
      }
    }
    finish_header(parsed);
    return parsed;
  }

  // Defaults of the header, and what is missing.
  void finish_header(Parsed& parsed) {
    ProgramInfo& info = parsed.spec.info;
    for (HeaderField field : {HeaderField::heads, HeaderField::head_dim}) {
      if (fields_[std::size_t(field)] || !parsed.complete) continue;
      errors_.push_back({"header.missing",
                         fmt::format("attention {} has no {}", info.name, attnfuse::name(field)), info.where,
                         fmt::format("add a line such as '{} {}'", attnfuse::name(field),
                                     field == HeaderField::heads ? 32 : 128)});
      parsed.complete = false;
    }
    if (!fields_[std::size_t(HeaderField::kv_heads)]) info.kv_heads = info.heads;
    if (!fields_[std::size_t(HeaderField::v_head_dim)]) info.v_head_dim = info.head_dim;
  }

  bool line(Parsed& parsed) {
    for (HeaderField field : kAllHeaderFields)
      if (peek().is(name(field))) return header(parsed.spec, field) || (parsed.complete = false);
    if (peek().is("param")) return param(parsed.spec) || (parsed.complete = false);
    for (Stage stage : kAllStages)
      if (peek().is(name(stage))) return stage_line(parsed.spec, stage);
    fail("syntax.unknown-line", fmt::format("no line starts with {}", shown(peek())), peek(),
         suggest(peek().text, kLineWords, fmt::format("lines start with {}", fmt::join(kLineWords, ", "))));
    return false;
  }

  bool header(Spec& spec, HeaderField field) {
    const Token word = next();
    if (fields_[std::size_t(field)]) {
      fail("header.twice", fmt::format("{} is given twice", word.text), word, "remove one of the lines");
      return false;
    }
    fields_[std::size_t(field)] = true;
    spec.places[std::size_t(field)] = peek().where;
    if (field == HeaderField::dtype) {
      const auto type = dtype();
      if (type) spec.info.dtype = *type;
      return type.has_value();
    }
    if (peek().kind != TokenKind::number || !peek().is_integer) {
      fail_expected(fmt::format("an integer after {}", word.text));
      return false;
    }
    const int value = int(next().value);
    switch (field) {
      case HeaderField::heads:
        spec.info.heads = value;
        break;
      case HeaderField::kv_heads:
        spec.info.kv_heads = value;
        break;
      case HeaderField::head_dim:
        spec.info.head_dim = value;
        break;
      case HeaderField::v_head_dim:
        spec.info.v_head_dim = value;
        break;
      case HeaderField::dtype:
        break;
    }
    return true;
  }

  std::optional<DType> dtype() {
    const auto word = expect_name("an element type");
    if (!word) return {};
    if (const auto type = dtype_from_name(word->text)) return type;
    return fail("syntax.dtype", fmt::format("{} is not an element type", shown(*word)), *word,
                "use f16, bf16, f32, i32 or bool");
  }

  bool param(Spec& spec) {
    next();
    Param param;
    const auto word = expect_name("the tensor's name");
    if (!word) return false;
    param.name = word->text;
    param.where = word->where;
    if (!expect(":", "write param name : f32[heads]")) return false;
    const auto type = dtype();
    if (!type) return false;
    param.dtype = *type;
    if (accept("[")) {
      do {
        const auto length = extent();
        if (!length) return false;
        param.shape.push_back(*length);
      } while (accept(","));
      if (!expect("]")) return false;
    }
    param.grad = accept("grad");
    spec.params.push_back(std::move(param));
    return true;
  }

  std::optional<Extent> extent() {
    if (peek().kind == TokenKind::number && peek().is_integer) return Extent{std::int64_t(next().value)};
    const auto word = expect_name("an integer or a size");
    if (!word) return {};
    std::vector<std::string_view> sizes;
    for (Size size : kAllSizes) {
      if (word->text == name(size)) return Extent{size};
      sizes.push_back(name(size));
    }
    return fail(
        "param.extent", fmt::format("{} is not a size", shown(*word)), *word,
        suggest(word->text, sizes, fmt::format("use an integer or one of {}", fmt::join(sizes, ", "))));
  }

  bool stage_line(Spec& spec, Stage stage) {
    next();
    depth_ = 0;
    const Token start = peek();
    auto value = expression(Precedence::logical_or);
    if (!value) return false;
    if (value->is(ExpressionKind::invalid)) return too_large(value->text, start);
    if (spec.lines.size() == kMaxLines)
      return too_large(fmt::format("is line {}; the limit is {}", kMaxLines + 1, kMaxLines), start);
    spec.lines.push_back({stage, std::move(*value)});
    if (peek().kind != TokenKind::name && !peek().is(";") && !peek().is("}") &&
        peek().kind != TokenKind::end) {
      fail_expected("an operator or the next line");
      return false;
    }
    return true;
  }

  bool too_large(const std::string& why, const Token& at) {
    fail("expression.too-large", "the expression " + why, at,
         "split it into several lines, or use a captured tensor");
    return false;
  }

  // ---- expressions ----

  struct Binary {
    Operator op;
    OperatorInfo info;
  };
  std::optional<Binary> peek_binary() const {
    if (peek().kind != TokenKind::symbol) return {};
    for (auto op = Operator::logical_or; op != Operator::neg; op = Operator(int(op) + 1))
      if (peek().text == info(op).spelling) return Binary{op, info(op)};
    return {};
  }

  // Precedence climbing. Operands nest at most as deep as the operators bind, plus brackets, which unary()
  // counts.
  std::optional<Expression> expression(Precedence loosest) {
    auto left = unary();
    bool compared = false;
    while (left) {
      const auto binary = peek_binary();
      if (!binary || binary->info.precedence < loosest) break;
      const Token token = next();
      const bool comparison = binary->info.precedence == Precedence::relational;
      if (comparison && compared)
        return fail("syntax.comparison-chain", "comparisons do not chain", token, "write a <= b && b < c");
      compared = comparison;
      auto right = expression(Precedence(int(binary->info.precedence) + 1));
      if (!right) return {};
      left = make_operation(binary->op, operand_list(std::move(*left), std::move(*right)), token.where);
    }
    return left;
  }

  static std::vector<Expression> operand_list(Expression first, Expression second) {
    std::vector<Expression> operands;
    operands.reserve(2);
    operands.push_back(std::move(first));
    operands.push_back(std::move(second));
    return operands;
  }

  std::optional<Expression> unary() {
    if (++depth_ > kMaxExpressionDepth)
      return fail(
          "expression.too-large",
          fmt::format("the expression is nested {} deep; the limit is {}", depth_, kMaxExpressionDepth),
          peek(), "split it into several lines, or use a captured tensor");
    const Token token = peek();
    std::optional<Expression> result;
    if (token.is("-") || token.is("!")) {
      next();
      if (auto operand = unary()) {
        std::vector<Expression> operands;
        operands.push_back(std::move(*operand));
        result = make_operation(token.is("-") ? Operator::neg : Operator::logical_not, std::move(operands),
                                token.where);
      }
    } else {
      result = primary();
    }
    --depth_;
    return result;
  }

  std::optional<Expression> primary() {
    if (peek().kind == TokenKind::number) {
      const Token token = next();
      return make_number(token.value, token.is_integer, token.where);
    }
    if (accept("(")) {
      auto inner = expression(Precedence::logical_or);
      if (!inner || !expect(")")) return {};
      return inner;
    }
    const auto word = expect_name("an expression");
    if (!word) return {};
    if (accept("(")) return call(*word);
    if (accept("[")) return gather(*word);
    return make_name(std::string(word->text), word->where);
  }

  std::optional<Expression> call(const Token& word) {
    std::vector<Expression> operands;
    std::vector<std::string> names;
    if (!accept(")")) {
      do {
        names.emplace_back();
        if (peek().kind == TokenKind::name && peek(1).is("=")) {
          names.back() = next().text;
          next();
        }
        auto operand = expression(Precedence::logical_or);
        if (!operand) return {};
        operands.push_back(std::move(*operand));
      } while (accept(","));
      if (!expect(")")) return {};
    }
    return make_call(std::string(word.text), std::move(operands), std::move(names), word.where);
  }

  std::optional<Expression> gather(const Token& word) {
    std::vector<Expression> indices;
    do {
      auto index = expression(Precedence::logical_or);
      if (!index) return {};
      indices.push_back(std::move(*index));
    } while (accept(","));
    if (!expect("]")) return {};
    return make_gather(std::string(word.text), std::move(indices), word.where);
  }

  std::vector<Token> tokens_;
  Diagnostics& errors_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::array<bool, std::size(kAllHeaderFields)> fields_{};
};

struct ParsedText {
  std::vector<Parsed> programs;
  Diagnostics errors;
};

ParsedText parse_text(std::string_view text, const std::string& file) {
  ParsedText result;
  if (text.size() > kMaxText) {
    result.errors.push_back({"syntax.too-large",
                             fmt::format("the text has {} bytes; the limit is {}", text.size(), kMaxText),
                             {file, 1, 1, 1},
                             "split the file"});
    return result;
  }
  std::vector<Token> tokens = tokenize(text, file, result.errors);
  // Tokens that are no numbers or characters at all leave little to parse.
  if (result.errors.size() > kMaxErrors) result.errors.resize(kMaxErrors);
  result.programs = Parser(std::move(tokens), result.errors).run();
  return result;
}

void by_place(Diagnostics& errors) {
  const auto key = [](const Diagnostic& error) {
    return std::tie(error.where.line, error.where.column, error.code, error.message);
  };
  std::ranges::sort(errors, [&](const Diagnostic& a, const Diagnostic& b) { return key(a) < key(b); });
}

}  // namespace

Result<std::vector<Spec>> parse_spec(std::string_view text, std::string file) {
  ParsedText parsed = parse_text(text, file);
  if (!parsed.errors.empty()) {
    by_place(parsed.errors);
    return std::move(parsed.errors);
  }
  std::vector<Spec> specs;
  for (Parsed& program : parsed.programs) specs.push_back(std::move(program.spec));
  return specs;
}

// Programs with mistakes in some lines are expanded without them, to find the mistakes in the others.
Result<std::vector<Graph>> parse(std::string_view text, std::string file) {
  ParsedText parsed = parse_text(text, file);
  std::vector<Graph> graphs;
  for (const Parsed& program : parsed.programs) {
    if (!program.complete || parsed.errors.size() >= kMaxErrors) continue;
    auto graph = expand(program.spec);
    if (graph)
      graphs.push_back(std::move(graph).value());
    else
      parsed.errors.insert(parsed.errors.end(), graph.errors().begin(), graph.errors().end());
  }
  if (parsed.errors.empty()) return graphs;
  by_place(parsed.errors);
  return std::move(parsed.errors);
}

Result<Graph> parse_one(std::string_view text, std::string file) {
  auto graphs = parse(text, file);
  if (!graphs) return graphs.errors();
  if (graphs->size() == 1) return std::move(graphs).value().front();
  return Diagnostic{"program.count",
                    fmt::format("the text holds {} programs; exactly one is expected", graphs->size()),
                    {file, 1, 1, 1},
                    "write attention name { ... }"};
}

}  // namespace attnfuse
