// Functions of an emitted CUDA text ("AF_FN ..." at the start of a line, perhaps after "template <...>") and
// their replacement by others of the same names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attnfuse::cuda {

struct TextFunction {
  std::size_t begin, end;  // whole lines
  std::string name;
  bool has_assembly;
};
std::vector<TextFunction> functions_in(std::string_view text);

// `source` without its functions that hold inline assembly and that `host` has too; the host's stand where
// the first of them was. The other lines keep their numbers.
std::string with_host_functions(std::string_view source, std::string_view host);

}  // namespace attnfuse::cuda
