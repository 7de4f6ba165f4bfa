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

Command blocks_command() {
  struct Options {
    bool markdown = false;
    std::string table;
  };
  auto options = std::make_shared<Options>();
  return {
      .name = "blocks",
      .about = "The building blocks and the example programs",
      .options = {{"--markdown", &options->markdown, "As a Markdown document"},
                  {"--table", &options->table, "As a Markdown table with links into this document"}},
      .action =
          [options] {
            const std::string text = !options->table.empty() ? blocks_table(options->table)
                                     : options->markdown     ? blocks_markdown()
                                                             : plain();
            return print_text(text) ? kDone : kFailed;
          },
  };
}

}  // namespace attnfuse::cli
