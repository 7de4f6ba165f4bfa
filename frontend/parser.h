// The .attn language: text -> Spec -> Graph and back. The grammar stands in parser.cpp, the meaning in
// expand.h and the catalog.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/spec.h"
#include "ir/graph.h"

namespace attnfuse {

// Parses every `attention name { ... }` in the text. `file` names it in diagnostics. All mistakes are
// collected; each points at line and column.
Result<std::vector<Graph>> parse(std::string_view text, const std::string& file = "<text>");
// Exactly one program expected.
Result<Graph> parse_one(std::string_view text, const std::string& file = "<text>");

// Syntax alone.
Result<std::vector<Spec>> parse_spec(std::string_view text, const std::string& file = "<text>");

}  // namespace attnfuse
