// --rotation: which of queries and keys are transformed ahead of attention.
#pragma once

#include "frontend/cli/options.h"
#include "passes/rotation.h"

namespace attnfuse::cli {

// Where the sizes of a call are not known, nothing can be chosen by them.
enum class Sizing : bool { unknown, known };
Option rotation_option(Rotation& rotation, Sizing sizing);

// The costs as lines of text, the choice last.
std::string rotation_text(std::span<const RotationCost> costs);

// The costs of a program over lengths, as a Markdown table.
Result<std::string> rotation_markdown(const Graph& graph, const Target& target);

}  // namespace attnfuse::cli
