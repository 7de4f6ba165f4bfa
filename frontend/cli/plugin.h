// --plugin FILE: backends from shared objects, for every command that takes --target.
#pragma once

#include "frontend/cli/options.h"

namespace attnfuse::cli {

// Adds the option to all such commands of the tool, and loads the files ahead of their actions.
void add_plugin_option(Command& tool);

}  // namespace attnfuse::cli
