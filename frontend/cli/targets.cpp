// attnfuse targets: what can be compiled for, and which devices are present.
#include <fmt/format.h>

#include "backends/backend.h"
#include "frontend/cli/command.h"

namespace attnfuse::cli {
namespace {

std::string table(bool markdown) {
  std::string text = markdown ? "| target | machine | what it offers |\n|---|---|---|\n" : "";
  for (const Target& target : all_targets())
    text += fmt::format(fmt::runtime(markdown ? "| `{}` | {} | {} |\n" : "{:<18} {:<42} {}\n"), target.name,
                        target.title, summary(target));
  return text;
}

std::string devices() {
  std::string text;
  for (const Backend* backend : backends()) {
    if (backend->device_count() == 0) {
      const auto opened = backend->open(0);
      text += fmt::format("{:<6} no device: {}\n", backend->name(),
                          opened ? "" : opened.errors().front().message);
    }
    for (int ordinal = 0; ordinal < backend->device_count(); ++ordinal) {
      const auto device = backend->open(ordinal);
      if (!device) {
        text +=
            fmt::format("{:<6} device {}: {}\n", backend->name(), ordinal, device.errors().front().message);
        continue;
      }
      text += fmt::format("{:<6} device {}: {}", backend->name(), ordinal, (*device)->name());
      for (const Target& target : (*device)->targets()) text += " " + target.name;
      text += "\n";
    }
  }
  return text;
}

}  // namespace

Command targets_command() {
  auto markdown = std::make_shared<bool>(false);
  return {
      .name = "targets",
      .about = "What programs can be compiled for, and the devices present",
      .options = {{"--markdown", markdown.get(), "The table of targets as Markdown"}},
      .action =
          [markdown] {
            return print_text(*markdown ? table(true) : table(false) + "\n" + devices()) ? kDone : kFailed;
          },
  };
}

}  // namespace attnfuse::cli
