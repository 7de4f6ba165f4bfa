// The catalog of building blocks: what each is called, where it stands, its parameters, its math, and how it
// expands. Documentation, argument checks and the test that walks every block come from these rows. Adding a
// block = one file in blocks/ and one line in catalog.cpp.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "frontend/spec.h"
#include "frontend/value.h"

namespace attnfuse {

// number, integer: known at compile time. choice: one of a list of words, which may have parameters
// themselves. index: an expression of the positions. per_head: the name of a tensor with one value per query
// head, or an expression of b and h. tensor: the name of a captured tensor.
enum class ParameterKind : std::uint8_t { number, integer, choice, index, per_head, tensor };

// A dimension of a tensor parameter: a size, or what the tensor says (then the name tells what it counts).
struct TensorAxis {
  std::string_view name;
  std::optional<Size> size = {};
  bool fixed = false;  // its extent is a number
  int most = INT32_MAX;
};

enum class Presence : std::uint8_t { required, optional, defaulted };

struct Choice;

struct Parameter {
  std::string_view name;
  ParameterKind kind;
  Presence presence;
  std::string_view about;
  double fallback = 0;                   // of a defaulted number or integer; choices default to the first
  std::string_view fallback_about = {};  // of an optional one: what absence means
  double least = -3.4e38, most = 3.4e38;
  bool above_least = false;  // least itself is too small
  std::span<const Choice> choices = {};
  // Of a tensor: its dimensions. Leading ones may be missing, as long as least_rank stay; any may be 1.
  std::span<const TensorAxis> axes = {};
  ValueType type = ValueType::f32;
  std::size_t least_rank = 1;
};

struct Choice {
  std::string_view name;
  std::span<const Parameter> parameters = {};
};

class Arguments;

// What a block sees when it expands.
struct BlockInput {
  Emitter& emitter;
  Stage stage;
  Value x;     // the value so far: the scores in a normalize line, meaningless in masks
  Value mask;  // of the normalize stage
  const Arguments& arguments;
  const Where& where;
  Diagnostics& errors;

  // What the arguments' own limits cannot say; the value is then not used.
  void mistake(std::string code, std::string message, std::string fix = {}) const {
    errors.push_back({std::move(code), std::move(message), where, std::move(fix)});
  }
  Value index(Axis axis) const;
  Value size(Size size) const;
  // i aligned with j: the last query stands at the last key.
  Value query_position() const;
  // Element of a tensor parameter at one index for each of its axes; those that the tensor lacks are dropped.
  Value element(std::string_view parameter, std::initializer_list<Value> indices) const {
    return element(arguments, parameter, indices);
  }
  Value element(const Arguments& of, std::string_view parameter, std::initializer_list<Value> indices) const;
  // Extent of a fixed axis, counted from the last.
  int extent(std::string_view parameter, std::size_t from_last) const;
};

struct Block {
  std::string_view name;
  std::span<const Stage> stages;
  std::span<const Parameter> parameters;
  std::string_view about;
  std::string_view math;  // one line of text
  std::string_view latex;
  std::string_view source;  // paper or models
  int score_heads = 1;      // of a program with the block in an output line: ProgramInfo::score_heads
  // Makes nodes one statement after another: C++ leaves the order of an operator's operands to the compiler,
  // and the same program must give the same graph everywhere.
  Value (*expand)(const BlockInput& input);
};

std::span<const Block* const> catalog();
const Block* find_block(std::string_view name);
bool stands_in(const Block& block, Stage stage);

// The catalog as a document, and its table alone with links into that document.
std::string blocks_markdown();
std::string blocks_table(std::string_view document);

}  // namespace attnfuse
