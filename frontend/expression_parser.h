// The expression grammar of .attn text; parser.cpp says what it is.
#pragma once

#include <optional>

#include "frontend/spec.h"
#include "frontend/token_stream.h"

namespace attnfuse {

// Never an invalid expression: one that outgrows the limits is a mistake like any other.
std::optional<Expression> parse_expression(TokenStream& tokens);

}  // namespace attnfuse
