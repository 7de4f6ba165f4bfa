// Text inside XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace attnfuse::conformance {

// What markup reserves becomes entities; control characters, which XML does not have, become question marks.
std::string escaped(std::string_view text);

}  // namespace attnfuse::conformance
