#include "frontend/cli/options.h"

#include <CLI/CLI.hpp>

#include "frontend/cli/command.h"

namespace attnfuse::cli {
namespace {

CLI::Option* add_choice(CLI::App& app, const Option& option, const Choice& choice) {
  const auto choose = [choice](const std::string& name) {
    choice.choose(std::size_t(std::ranges::find(choice.names, name) - choice.names.begin()));
  };
  return app.add_option_function<std::string>(option.name, choose, option.about)
      ->check(CLI::IsMember(choice.names))
      ->default_str(choice.initial);
}

template <class Number>
CLI::Option* add_number(CLI::App& app, const Option& option, Number& value) {
  CLI::Option* added = app.add_option(option.name, value, option.about);
  if (option.range) added->check(CLI::Range(Number(option.range->least), Number(option.range->most)));
  if (!option.one_of.empty()) added->check(CLI::IsMember(option.one_of));
  return value == Number() ? added : added->capture_default_str();
}

CLI::Option* add_option(CLI::App& app, const Option& option) {
  return std::visit(
      overloaded{
          [&](bool* value) { return app.add_flag(option.name, *value, option.about); },
          [&](std::string* value) {
            CLI::Option* added = app.add_option(option.name, *value, option.about);
            return value->empty() ? added : added->capture_default_str();
          },
          [&](std::vector<int>* value) {
            CLI::Option* added = app.add_option(option.name, *value, option.about)->delimiter(',');
            if (option.range) added->check(CLI::Range(option.range->least, option.range->most));
            return added->capture_default_str();
          },
          [&](std::vector<std::string>* value) { return app.add_option(option.name, *value, option.about); },
          [&](const Choice& choice) { return add_choice(app, option, choice); },
          [&](auto* number) { return add_number(app, option, *number); },
      },
      option.value);
}

// `chosen` becomes the action of the command that is named.
void add_command(CLI::App& parent, const Command& command, Action& chosen) {
  CLI::App* app = parent.add_subcommand(command.name, command.about);
  for (const Option& option : command.options) add_option(*app, option)->required(option.required);
  for (const Command& below : command.commands) add_command(*app, below, chosen);
  app->callback([app, &chosen, action = command.action] {
    if (app->get_subcommands().empty()) chosen = action;
  });
}

}  // namespace

Action read_command_line(const Command& tool, const std::string& version, const std::string& footer, int argc,
                         const char* const* argv) {
  CLI::App app{tool.about, tool.name};
  app.require_subcommand(1);
  app.set_version_flag("--version", version);
  app.footer(footer);
  Action chosen;
  for (const Command& command : tool.commands) add_command(app, command, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return [code = app.exit(error) == 0 ? kDone : kUsage] { return code; };
  }
  return chosen;
}

}  // namespace attnfuse::cli
