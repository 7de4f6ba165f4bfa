// file      = { "attention" NAME "{" { line [";"] } "}" }
// line      = ("heads" | "kv_heads" | "head_dim" | "v_head_dim") INTEGER
//           | "dtype" TYPE
//           | "param" NAME ":" TYPE [ "[" extent { "," extent } "]" ] [ "grad" ]
//           | "storage" form { "," form }
//           | ("query" | "key" | "value" | "score" | "mask" | "normalize") expression
// form      = "ragged" | "paged" "(" [ "page_size" "=" ] INTEGER ")"
// extent    = INTEGER | size
// expression, loosest first:  ||   &&   < <= > >= == !=   + -   * / // %   unary - !
// primary   = NUMBER | NAME | "(" expression ")"
//           | NAME "(" [ argument { "," argument } ] ")"
//           | NAME "[" expression { "," expression } "]"
//           | "sum" "(" NAME "in" expression ".." expression ")" factors
// argument  = [ NAME "=" ] expression
//
// Line ends are blanks: what follows an operand is an operator or begins the next line. Required: heads,
// head_dim. kv_heads defaults to heads, v_head_dim to head_dim, dtype to f16. expression_parser.cpp reads
// expressions.
#include "frontend/parser.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "frontend/expand.h"
#include "frontend/expression_parser.h"
#include "frontend/suggest.h"
#include "frontend/token_stream.h"

namespace attnfuse {
namespace {

constexpr std::size_t kMaxText = 256U << 10U;
constexpr std::size_t kMaxErrors = 50;
constexpr std::size_t kMaxPrograms = 256;

struct Parsed {
  Spec spec;
  bool complete = true;  // header and params are; lines with mistakes are left out
};

class Parser {
 public:
  Parser(std::vector<Token> tokens, Diagnostics& errors)
      : tokens_(std::move(tokens), errors), errors_(errors) {}

  std::vector<Parsed> run() {
    std::vector<Parsed> programs;
    while (!tokens_.at_end() && tokens_.error_count() < kMaxErrors) {
      if (!tokens_.peek().is("attention")) {
        tokens_.fail_expected("'attention'");
        while (!tokens_.at_end() && !tokens_.peek().is("attention")) tokens_.next();
        continue;
      }
      programs.push_back(program());
      if (programs.size() <= kMaxPrograms) continue;
      tokens_.fail("syntax.too-large", fmt::format("more than {} programs", kMaxPrograms), tokens_.peek(),
                   "split the file");
      break;
    }
    return programs;
  }

 private:
  Parsed program() {
    tokens_.next();
    Parsed parsed;
    fields_ = {};
    if (tokens_.peek().kind == TokenKind::name) {
      const Token name = tokens_.next();
      parsed.spec.info.name = name.text;
      parsed.spec.info.where = name.where;
    } else {
      tokens_.fail_expected("the program's name");
      parsed.complete = false;
    }
    if (!tokens_.expect("{")) {
      tokens_.recover();
      parsed.complete = false;
    }
    while (tokens_.error_count() < kMaxErrors) {
      if (tokens_.accept(";")) continue;
      if (tokens_.accept("}")) break;
      if (tokens_.at_end() || tokens_.peek().is("attention")) {
        tokens_.fail_expected("'}'", fmt::format("close attention {}", parsed.spec.info.name));
        parsed.complete = false;
        break;
      }
      const std::size_t before = tokens_.position();
      if (!line(parsed)) {
        if (tokens_.position() == before) tokens_.next();
        tokens_.recover();
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
      if (tokens_.peek().is(name(field))) return header(parsed.spec, field) || (parsed.complete = false);
    if (tokens_.peek().is("storage")) return storage(parsed.spec) || (parsed.complete = false);
    if (tokens_.peek().is("param")) return param(parsed.spec) || (parsed.complete = false);
    for (Stage stage : kAllStages)
      if (tokens_.peek().is(name(stage))) return stage_line(parsed.spec, stage);
    tokens_.fail("syntax.unknown-line", fmt::format("no line starts with {}", shown(tokens_.peek())),
                 tokens_.peek(),
                 suggest(tokens_.peek().text, line_words(),
                         fmt::format("lines start with {}", fmt::join(line_words(), ", "))));
    return false;
  }

  bool header(Spec& spec, HeaderField field) {
    const Token word = tokens_.next();
    if (fields_[std::size_t(field)]) {
      tokens_.fail("header.twice", fmt::format("{} is given twice", word.text), word,
                   "remove one of the lines");
      return false;
    }
    fields_[std::size_t(field)] = true;
    spec.places[std::size_t(field)] = tokens_.peek().where;
    if (field == HeaderField::dtype) {
      const auto type = dtype();
      if (type) spec.info.dtype = *type;
      return type.has_value();
    }
    if (tokens_.peek().kind != TokenKind::number || !tokens_.peek().is_integer) {
      tokens_.fail_expected(fmt::format("an integer after {}", word.text));
      return false;
    }
    const int value = int(tokens_.next().value);
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
    const auto word = tokens_.expect_name("an element type");
    if (!word) return {};
    if (const auto type = dtype_from_name(word->text)) return type;
    return tokens_.fail("syntax.dtype", fmt::format("{} is not an element type", shown(*word)), *word,
                        "use f16, bf16, f32, i32 or bool");
  }

  bool param(Spec& spec) {
    tokens_.next();
    Param param;
    const auto word = tokens_.expect_name("the tensor's name");
    if (!word) return false;
    param.name = word->text;
    param.where = word->where;
    if (!tokens_.expect(":", "write param name : f32[heads]")) return false;
    const auto type = dtype();
    if (!type) return false;
    param.dtype = *type;
    if (tokens_.accept("[")) {
      do {
        const auto length = extent();
        if (!length) return false;
        param.shape.push_back(*length);
      } while (tokens_.accept(","));
      if (!tokens_.expect("]")) return false;
    }
    param.grad = tokens_.accept("grad");
    spec.params.push_back(std::move(param));
    return true;
  }

  bool storage(Spec& spec) {
    tokens_.next();
    do {
      const auto form = storage_form();
      if (!form) return false;
      spec.storage.push_back(*form);
    } while (tokens_.accept(","));
    return true;
  }

  std::optional<StorageForm> storage_form() {
    const auto word = tokens_.expect_name("a storage form");
    if (!word) return {};
    if (word->text == "ragged") return StorageForm{{}, word->where};
    if (word->text != "paged")
      return tokens_.fail("storage.form", fmt::format("{} is not a storage form", shown(*word)), *word,
                          suggest(word->text, std::array<std::string_view, 2>{"ragged", "paged"},
                                  "use ragged or paged(page_size = 16)"));
    constexpr const char* kFix = "write paged(page_size = 16)";
    if (!tokens_.expect("(", kFix)) return {};
    if (tokens_.accept("page_size") && !tokens_.expect("=", kFix)) return {};
    const Token size = tokens_.peek();
    const bool is_negative = tokens_.accept("-");
    if (tokens_.peek().kind != TokenKind::number || !tokens_.peek().is_integer)
      return tokens_.fail_expected("an integer, the rows of a page", kFix);
    const auto rows = std::int64_t(tokens_.next().value);
    if (!tokens_.expect(")", kFix)) return {};
    return StorageForm{is_negative ? -rows : rows, size.where};
  }

  std::optional<Extent> extent() {
    if (tokens_.peek().kind == TokenKind::number && tokens_.peek().is_integer)
      return Extent{std::int64_t(tokens_.next().value)};
    const auto word = tokens_.expect_name("an integer or a size");
    if (!word) return {};
    std::vector<std::string_view> sizes;
    for (Size size : kAllSizes) {
      if (word->text == name(size)) return Extent{size};
      sizes.push_back(name(size));
    }
    return tokens_.fail(
        "param.extent", fmt::format("{} is not a size", shown(*word)), *word,
        suggest(word->text, sizes, fmt::format("use an integer or one of {}", fmt::join(sizes, ", "))));
  }

  bool stage_line(Spec& spec, Stage stage) {
    tokens_.next();
    auto value = parse_expression(tokens_);
    if (!value) return false;
    spec.lines.push_back({stage, std::move(*value)});
    const Token& after = tokens_.peek();
    if (after.kind == TokenKind::name || after.is(";") || after.is("}") || tokens_.at_end()) return true;
    tokens_.fail_expected("an operator or the next line");
    return false;
  }

  TokenStream tokens_;
  Diagnostics& errors_;
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

Result<std::vector<Spec>> parse_spec(std::string_view text, const std::string& file) {
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
Result<std::vector<Graph>> parse(std::string_view text, const std::string& file) {
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

Result<Graph> parse_one(std::string_view text, const std::string& file) {
  auto graphs = parse(text, file);
  if (!graphs) return graphs.errors();
  if (graphs->size() == 1) return std::move(graphs).value().front();
  return Diagnostic{"program.count",
                    fmt::format("the text holds {} programs; exactly one is expected", graphs->size()),
                    {file, 1, 1, 1},
                    "write attention name { ... }"};
}

}  // namespace attnfuse
