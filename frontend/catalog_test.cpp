#include "frontend/catalog.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "frontend/expand.h"
#include "frontend/functions.h"
#include "frontend/parser.h"

namespace attnfuse {
namespace {

bool is_required(const Parameter& parameter) { return parameter.presence == Presence::required; }

// Some legal argument, a tensor's name included.
std::string sample(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::number:
    case ParameterKind::integer:
      return std::to_string(std::max(2, int(std::max(parameter.least, 0.0)) * 2));
    case ParameterKind::choice:
      for (const auto& choice : std::ranges::reverse_view(parameter.choices))
        if (std::ranges::none_of(choice.parameters, is_required)) return std::string(choice.name);
      return "";
    case ParameterKind::index:
      return "sq + 3";
    case ParameterKind::per_head:
      return "h * 0.5";
    case ParameterKind::tensor:
      return "t_" + std::string(parameter.name);
  }
  return "";
}

// The tensors that samples name.
std::string declared(const Block& block) {
  std::string text;
  for (const Parameter& parameter : block.parameters) {
    if (parameter.kind != ParameterKind::tensor) continue;
    std::string shape;
    for (const TensorAxis& axis : parameter.axes)
      shape += (shape.empty() ? "" : ", ") + (axis.size    ? std::string(name(*axis.size))
                                              : axis.fixed ? "5"
                                                           : "1");
    text += "param " + sample(parameter) + " : " + std::string(name(parameter.type)) + "[" + shape + "] ";
  }
  return text;
}

std::string program(Stage stage, const std::string& call, const std::string& params = "") {
  return "attention t { heads 4 head_dim 32 " + params + std::string(name(stage)) + " " + call + " }";
}

void check_expands(const std::string& text) {
  CAPTURE(text);
  const auto graph = parse_one(text);
  CHECK_MESSAGE(graph, render(graph.errors(), text));
}

TEST_CASE("every block expands in each of its stages and nowhere else, with few and with all arguments") {
  for (const Block* block : catalog()) {
    std::string required, all;
    for (const Parameter& parameter : block->parameters) {
      const std::string argument = std::string(parameter.name) + " = " + sample(parameter);
      if (parameter.presence == Presence::required) required += (required.empty() ? "" : ", ") + argument;
      all += (all.empty() ? "" : ", ") + argument;
    }
    for (Stage stage : kAllStages) {
      const std::string params = declared(*block);
      const std::string few = program(stage, std::string(block->name) + "(" + required + ")", params);
      if (stands_in(*block, stage)) {
        check_expands(few);
        check_expands(program(stage, std::string(block->name) + "(" + all + ")", params));
      } else {
        CAPTURE(few);
        CHECK_FALSE(parse_one(few));
      }
    }
  }
}

TEST_CASE("every number has limits that are kept") {
  for (const Block* block : catalog())
    for (const Parameter& parameter : block->parameters) {
      if (parameter.kind != ParameterKind::integer && parameter.kind != ParameterKind::number) continue;
      for (const std::string beyond : {"-1e38 * 3.5", "1e38 * 3.5", "2147483647 + 1"}) {
        const std::string text =
            program(block->stages[0],
                    std::string(block->name) + "(" + std::string(parameter.name) + " = " + beyond + ")");
        CAPTURE(text);
        CHECK_FALSE(parse_one(text));
      }
    }
}

TEST_CASE("names of blocks and functions are different and reserved") {
  std::set<std::string_view> names;
  for (const Block* block : catalog()) CHECK(names.insert(block->name).second);
  for (const Function& function : functions()) CHECK(names.insert(function.name).second);
  for (std::string_view name : names) CHECK(is_reserved_name(name));
  CHECK_FALSE(is_reserved_name("slope"));
}

TEST_CASE("the document names every block, stage and parameter") {
  const std::string text = blocks_markdown();
  for (const Block* block : catalog()) {
    CHECK(text.find("### " + std::string(block->name) + "\n") != std::string::npos);
    CHECK(text.find(block->latex) != std::string::npos);
    CHECK(text.find(block->source) != std::string::npos);
    for (const Parameter& parameter : block->parameters)
      CHECK(text.find("| `" + std::string(parameter.name) + "` |") != std::string::npos);
  }
  CHECK(text.find("| `llama3.factor` | number >= 1 | 8 |") != std::string::npos);
}

}  // namespace
}  // namespace attnfuse
