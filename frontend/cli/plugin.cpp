#include "frontend/cli/plugin.h"

#include <algorithm>
#include <memory>

#include "backends/plugin.h"
#include "frontend/cli/command.h"

namespace attnfuse::cli {

void add_plugin_option(Command& command) {
  for (Command& below : command.commands) add_plugin_option(below);
  const bool has_target =
      std::ranges::find(command.options, "--target", &Option::name) != command.options.end();
  if (!has_target && command.name != "targets") return;
  const auto files = std::make_shared<std::vector<std::string>>();
  command.options.push_back({"--plugin", files.get(), "Shared object with one more backend"});
  command.action = [files, action = std::move(command.action)] {
    for (const std::string& file : *files)
      if (const auto loaded = load_plugin(file); !loaded) return fail(loaded.errors());
    return action();
  };
}

}  // namespace attnfuse::cli
