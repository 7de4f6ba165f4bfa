// Spec: one attention program as it was written, before it becomes a graph. The parser and the C++ builder
// make specs, print() writes them back, expand() gives them meaning. Values: equality ignores where things
// stand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// ---- expressions -----------------------------------------------------------------------------------

enum class Operator : std::uint8_t {
  logical_or,
  logical_and,
  lt,
  le,
  gt,
  ge,
  eq,
  ne,
  add,
  sub,
  mul,
  div,
  floor_div,
  mod,
  neg,
  logical_not,
};

struct OperatorInfo {
  std::string_view spelling;
  int arity;
  Precedence precedence;
};
const OperatorInfo& info(Operator op);

// invalid: an expression that outgrew the limits below; text says which.
enum class ExpressionKind : std::uint8_t { number, name, operation, call, gather, sum, invalid };

// A call is a function or a building block: blocks have named arguments. A sum has the operands first, end
// (not part of it) and what is summed. A name is a variable, a size, a word
// such as `half`, or a block without arguments.
struct Expression {
  ExpressionKind kind = ExpressionKind::invalid;
  std::string text;         // of a name, call or gather: what is named; of a sum: its variable
  double value = 0;         // of a number, never negative
  bool is_integer = false;  // of a number
  Operator op{};            // of an operation
  std::vector<Expression> operands;
  std::vector<std::string> argument_names;  // of a call, as many as operands; empty = by position
  int depth = 1;                            // of the tree
  int nodes = 1;
  Where where;

  bool is(ExpressionKind wanted) const { return kind == wanted; }
};
bool operator==(const Expression& a, const Expression& b);

// Beyond these an expression becomes invalid: everything that walks a tree is recursive.
inline constexpr int kMaxExpressionDepth = 100;
inline constexpr int kMaxExpressionNodes = 2048;

Expression make_number(double value, bool is_integer, Where where = {});  // negative: the operation -(number)
Expression make_name(std::string text, Where where = {});
Expression make_operation(Operator op, std::vector<Expression> operands, Where where = {});
Expression make_call(std::string text, std::vector<Expression> operands,
                     std::vector<std::string> argument_names, Where where = {});
Expression make_gather(std::string tensor, std::vector<Expression> indices, Where where = {});
Expression make_sum(std::string variable, Expression first, Expression end, Expression summand,
                    Where where = {});

// ---- programs --------------------------------------------------------------------------------------

// Where a line of a program acts. Lines of one stage apply in order; stages apply in this order.
enum class Stage : std::uint8_t { query, key, value, score, mask, normalize, weights, output };
inline constexpr Stage kAllStages[] = {Stage::query, Stage::key,       Stage::value,   Stage::score,
                                       Stage::mask,  Stage::normalize, Stage::weights, Stage::output};
std::string_view name(Stage stage);

inline constexpr Size kAllSizes[] = {Size::batch, Size::heads,    Size::kv_heads,  Size::sq,
                                     Size::skv,   Size::head_dim, Size::v_head_dim};

struct Line {
  Stage stage;
  Expression expression;
};
bool operator==(const Line& a, const Line& b);

// A captured tensor.
struct Param {
  std::string name;
  DType dtype = DType::f32;
  std::vector<Extent> shape;
  bool grad = false;
  Where where;
};
bool operator==(const Param& a, const Param& b);

// One storage form, as named: ragged, or paged with so many rows a page.
struct StorageForm {
  std::optional<std::int64_t> page_size;  // absent: ragged
  Where where = {};
};
bool operator==(const StorageForm& a, const StorageForm& b);

enum class HeaderField : std::uint8_t { heads, kv_heads, head_dim, v_head_dim, dtype };
inline constexpr HeaderField kAllHeaderFields[] = {HeaderField::heads, HeaderField::kv_heads,
                                                   HeaderField::head_dim, HeaderField::v_head_dim,
                                                   HeaderField::dtype};
std::string_view name(HeaderField field);

struct Spec {
  ProgramInfo info;                                       // its storage is what `storage` says, once expanded
  std::array<Where, std::size(kAllHeaderFields)> places;  // of the header fields
  std::vector<StorageForm> storage;
  std::vector<Param> params;
  std::vector<Line> lines;
};
bool operator==(const Spec& a, const Spec& b);

inline constexpr std::size_t kMaxParams = 64;
inline constexpr std::size_t kMaxLines = 256;

// Canonical .attn text: parse_spec(print(spec)) == spec.
std::string print(const Expression& expression);
std::string print(const Spec& spec);

}  // namespace attnfuse
