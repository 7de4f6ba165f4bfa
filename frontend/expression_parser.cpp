#include "frontend/expression_parser.h"

#include <fmt/format.h>

namespace attnfuse {
namespace {

constexpr std::string_view kTooLarge = "expression.too-large";
constexpr std::string_view kSplit = "split it into several lines, or use a captured tensor";

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  std::optional<Expression> run() {
    const Token start = tokens_.peek();
    auto value = expression(Precedence::logical_or);
    if (value && value->is(ExpressionKind::invalid))
      return tokens_.fail(std::string(kTooLarge), "the expression " + value->text, start,
                          std::string(kSplit));
    return value;
  }

 private:
  struct Binary {
    Operator op;
    OperatorInfo info;
  };
  std::optional<Binary> peek_binary() const {
    if (tokens_.peek().kind != TokenKind::symbol) return {};
    for (auto op = Operator::logical_or; op != Operator::neg; op = Operator(int(op) + 1))
      if (tokens_.peek().text == info(op).spelling) return Binary{op, info(op)};
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
      const Token token = tokens_.next();
      const bool comparison = binary->info.precedence == Precedence::relational;
      if (comparison && compared)
        return tokens_.fail("syntax.comparison-chain", "comparisons do not chain", token,
                            "write a <= b && b < c");
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
      return tokens_.fail(
          std::string(kTooLarge),
          fmt::format("the expression is nested {} deep; the limit is {}", depth_, kMaxExpressionDepth),
          tokens_.peek(), std::string(kSplit));
    const Token token = tokens_.peek();
    std::optional<Expression> result;
    if (token.is("-") || token.is("!")) {
      tokens_.next();
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
    if (tokens_.peek().kind == TokenKind::number) {
      const Token token = tokens_.next();
      return make_number(token.value, token.is_integer, token.where);
    }
    if (tokens_.accept("(")) {
      auto inner = expression(Precedence::logical_or);
      if (!inner || !tokens_.expect(")")) return {};
      return inner;
    }
    const auto word = tokens_.expect_name("an expression");
    if (!word) return {};
    if (word->text == "sum" && tokens_.peek().is("(")) return sum(*word);
    if (tokens_.accept("(")) return call(*word);
    if (tokens_.accept("[")) return gather(*word);
    return make_name(std::string(word->text), word->where);
  }

  std::optional<Expression> call(const Token& word) {
    std::vector<Expression> operands;
    std::vector<std::string> names;
    if (!tokens_.accept(")")) {
      do {
        names.emplace_back();
        if (tokens_.peek().kind == TokenKind::name && tokens_.peek(1).is("=")) {
          names.back() = tokens_.next().text;
          tokens_.next();
        }
        auto operand = expression(Precedence::logical_or);
        if (!operand) return {};
        operands.push_back(std::move(*operand));
      } while (tokens_.accept(","));
      if (!tokens_.expect(")")) return {};
    }
    return make_call(std::string(word.text), std::move(operands), std::move(names), word.where);
  }

  // "sum" "(" NAME "in" first ".." end ")" and all factors that follow.
  std::optional<Expression> sum(const Token& word) {
    tokens_.next();
    const auto variable = tokens_.expect_name("the sum's variable, as in sum(n in 0..4)");
    if (!variable || !tokens_.expect("in")) return {};
    auto first = expression(Precedence::additive);
    if (!first || !tokens_.expect("..")) return {};
    auto end = expression(Precedence::additive);
    if (!end || !tokens_.expect(")")) return {};
    auto summand = expression(Precedence::multiplicative);
    if (!summand) return {};
    return make_sum(std::string(variable->text), std::move(*first), std::move(*end), std::move(*summand),
                    word.where);
  }

  std::optional<Expression> gather(const Token& word) {
    std::vector<Expression> indices;
    do {
      auto index = expression(Precedence::logical_or);
      if (!index) return {};
      indices.push_back(std::move(*index));
    } while (tokens_.accept(","));
    if (!tokens_.expect("]")) return {};
    return make_gather(std::string(word.text), std::move(indices), word.where);
  }

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace

std::optional<Expression> parse_expression(TokenStream& tokens) { return ExpressionParser(tokens).run(); }

}  // namespace attnfuse
