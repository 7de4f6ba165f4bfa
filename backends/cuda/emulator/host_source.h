// An emitted CUDA source as C++ for this machine: the text itself, with the functions that hold inline PTX
// replaced.
#pragma once

#include <string>
#include <string_view>

namespace attnfuse::cuda {

// With room for `shared_bytes` of dynamic shared memory.
std::string host_source(std::string_view source, std::string_view entry, int shared_bytes);

// ---- its parts ---------------------------------------------------------------------------------
std::string_view host_language();    // qualifiers, built-in variables and functions of CUDA C++
std::string_view host_intrinsics();  // functions in place of those with inline PTX

}  // namespace attnfuse::cuda
