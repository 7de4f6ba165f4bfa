// The programs of frontend/examples, compiled in, so that the tool and the cases need no files.
#pragma once

#include <span>
#include <string_view>

namespace attnfuse::conformance {

struct Example {
  std::string_view name;  // the file's place in the folder without .attn: "mistral", "gym/natten"
  std::string_view text;
  // One of the variants that flex_attention's users write, at a size of its own, and no model's program.
  bool is_gym() const { return name.starts_with("gym/"); }
};
std::span<const Example> examples();  // by name
const Example* find_example(std::string_view name);

}  // namespace attnfuse::conformance
