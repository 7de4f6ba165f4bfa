// attnfuse blocks: the catalog of building blocks and the example programs.
#include <fmt/format.h>

#include "conformance/examples.h"
#include "frontend/catalog.h"
#include "frontend/cli/command.h"

namespace attnfuse::cli {
namespace {

std::string parameters_text(const Block& block) {
  std::string text;
  for (const Parameter& parameter : block.parameters)
    text += (text.empty() ? "" : ", ") + std::string(parameter.name);
  return text.empty() ? std::string(block.name) : fmt::format("{}({})", block.name, text);
}

std::string plain() {
  std::string text;
  for (const Block* block : catalog()) {
    std::string stages;
    for (Stage stage : block->stages) stages += (stages.empty() ? "" : " ") + std::string(name(stage));
    text +=
        fmt::format("{}\n    {}: {}\n    {}\n", parameters_text(*block), stages, block->about, block->math);
  }
  text += "\nExamples:";
  for (const auto& example : conformance::examples()) text += " " + std::string(example.name);
  return text + "\n";
}

}  // namespace

void add_blocks(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("blocks", "The building blocks and the example programs");
  auto markdown = std::make_shared<bool>(false);
  auto document = std::make_shared<std::string>();
  command->add_flag("--markdown", *markdown, "As a Markdown document");
  command->add_option("--table", *document, "As a Markdown table with links into this document");
  command->callback([&action, markdown, document] {
    action = [markdown, document] {
      const std::string text = !document->empty() ? blocks_table(*document)
                               : *markdown        ? blocks_markdown()
                                                  : plain();
      return print_text(text) ? kDone : kFailed;
    };
  });
}

}  // namespace attnfuse::cli
