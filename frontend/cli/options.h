// The command line as data: commands, their options and where the values go. The library that parses it is
// included by options.cpp alone, since its header costs every file seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace attnfuse::cli {

// One of some words; `choose` is told the number of the one that is given.
struct Choice {
  std::vector<std::string> names;
  std::string initial;
  std::function<void(std::size_t)> choose;
};

// The choice among the values of an enumeration; `value` names the initial one.
template <class Enum>
Choice choice(Enum& value, const std::vector<std::pair<std::string, Enum>>& rows) {
  Choice made;
  std::vector<Enum> values;
  for (const auto& [name, row_value] : rows) {
    if (row_value == value) made.initial = name;
    made.names.push_back(name);
    values.push_back(row_value);
  }
  made.choose = [&value, values](std::size_t index) { value = values.at(index); };
  return made;
}

struct Range {
  int least, most;
};

// What is pointed at holds the initial value, which the help shows unless it is empty or zero.
struct Option {
  std::string name;  // "spec": the command's argument; "--target"; "-o,--output"
  std::variant<bool*, int*, std::int64_t*, std::uint64_t*, double*, std::string*, std::vector<int>*,
               std::vector<std::string>*, Choice>
      value;
  std::string about;
  bool required = false;
  std::optional<Range> range = {};
  std::vector<int> one_of = {};
};

// What a command does; the result is the exit code of the tool.
using Action = std::function<int()>;

// `action` owns what the options point at.
struct Command {
  std::string name, about;
  std::vector<Option> options = {};
  Action action = {};
  std::vector<Command> commands = {};
};

// The action of the command that the command line names. Of a wrong one, or one that asks for help, the text
// has been printed, and the action returns the exit code.
Action read_command_line(const Command& tool, const std::string& version, const std::string& footer, int argc,
                         const char* const* argv);

}  // namespace attnfuse::cli
