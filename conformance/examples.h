// The programs of frontend/examples, compiled in, so that the tool and the cases need no files.
#pragma once

#include <span>
#include <string_view>

namespace attnfuse::conformance {

struct Example {
  std::string_view name;  // the file's name without .attn
  std::string_view text;
};
std::span<const Example> examples();  // by name
const Example* find_example(std::string_view name);

}  // namespace attnfuse::conformance
