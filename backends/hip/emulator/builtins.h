// Text that turns an emitted HIP source into C++ for this machine: qualifiers and the clang builtins it may
// call.
#pragma once

#include <string>
#include <string_view>

namespace attnfuse::hip {

// `source` between the builtins and a C entry point that calls the kernel `entry` with its argument block.
std::string host_source(std::string_view source, std::string_view entry);

}  // namespace attnfuse::hip
