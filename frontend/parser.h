// The .attn language: text -> Graph and back. Grammar and semantics: frontend/README in the header of parser.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace attnfuse {

// Parses every `attention name { ... }` in the text. `file` names it in diagnostics. All mistakes are
// collected; each points at line and column.
Result<std::vector<Graph>> parse(std::string_view text, std::string file = "<text>");
// Exactly one program expected.
Result<Graph> parse_one(std::string_view text, std::string file = "<text>");

}  // namespace attnfuse
