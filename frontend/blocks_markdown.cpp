#include <fmt/format.h>

#include "frontend/catalog.h"

namespace attnfuse {
namespace {

std::string limits(const Parameter& parameter) {
  constexpr double kUnlimited = 1e38;
  std::string text;
  if (parameter.least > -kUnlimited)
    text += fmt::format("{} {:.10g}", parameter.above_least ? ">" : ">=", parameter.least);
  if (parameter.most < kUnlimited)
    text += fmt::format("{}<= {:.10g}", text.empty() ? "" : ", ", parameter.most);
  return text;
}

std::string kind_text(const Parameter& parameter) {
  switch (parameter.kind) {
    case ParameterKind::number:
      return fmt::format("number {}", limits(parameter));
    case ParameterKind::integer:
      return "integer " + limits(parameter);
    case ParameterKind::choice: {
      std::string words;
      for (const Choice& choice : parameter.choices) {
        std::string list;
        for (const Parameter& inner : choice.parameters)
          list += (list.empty() ? "" : ", ") + std::string(inner.name);
        words += fmt::format("{}`{}{}`", words.empty() ? "" : " or ", choice.name,
                             list.empty() ? "" : "(" + list + ")");
      }
      return words;
    }
    case ParameterKind::index:
      return "expression of positions, sizes, tensors";
    case ParameterKind::per_head:
      return "tensor `[heads]`, or expression of b, h";
    case ParameterKind::tensor: {
      std::string axes;
      for (const TensorAxis& axis : parameter.axes)
        axes += (axes.empty() ? "" : ", ") + std::string(axis.name);
      return fmt::format("tensor `{}[{}]`{}", name(parameter.type), axes,
                         parameter.axes.size() > parameter.least_rank ? ", or its last dimensions" : "");
    }
  }
  ATTNFUSE_CHECK(false, "not a parameter kind");
}

std::string default_text(const Parameter& parameter) {
  switch (parameter.presence) {
    case Presence::required:
      return "required";
    case Presence::optional:
      return std::string(parameter.fallback_about);
    case Presence::defaulted:
      if (parameter.kind == ParameterKind::choice) return fmt::format("`{}`", parameter.choices.front().name);
      return fmt::format("{:.10g}", parameter.fallback);
  }
  ATTNFUSE_CHECK(false, "not a presence");
}

// Parameters of a chosen word follow it, as word.parameter.
void add_rows(std::string& text, std::span<const Parameter> parameters, const std::string& prefix) {
  for (const Parameter& parameter : parameters) {
    text += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, parameter.name, kind_text(parameter),
                        default_text(parameter), parameter.about);
    for (const Choice& choice : parameter.choices)
      add_rows(text, choice.parameters, std::string(choice.name) + ".");
  }
}

std::string block_text(const Block& block) {
  std::string text = fmt::format("### {}\n\n{}\n\n$${}$$\n\n`{}` ({})\n\n", block.name, block.about,
                                 block.latex, block.math, block.source);
  if (block.parameters.empty()) return text;
  text += "| parameter | values | default | meaning |\n|---|---|---|---|\n";
  add_rows(text, block.parameters, "");
  return text + "\n";
}

}  // namespace

std::string blocks_table(std::string_view document) {
  std::string text = "| block | stands in | math |\n|---|---|---|\n";
  const auto escaped = [](std::string_view math) {
    std::string result;
    for (char c : math) result += c == '|' ? std::string("\\|") : std::string(1, c);
    return result;
  };
  for (const Block* block : catalog()) {
    std::string stages;
    for (Stage stage : block->stages) stages += (stages.empty() ? "" : ", ") + std::string(name(stage));
    text += fmt::format("| [`{0}`]({3}#{0}) | {1} | `{2}` |\n", block->name, stages, escaped(block->math),
                        document);
  }
  return text;
}

std::string blocks_markdown() {
  std::string text = "# Building blocks\n\n" + blocks_table("") + "\n";
  for (const Block* block : catalog()) text += block_text(*block);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace attnfuse
