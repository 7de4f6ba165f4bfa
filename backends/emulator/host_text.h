// Text around an emitted source that makes it a shared object for this machine: what all emulated machines
// share. Their builtins stand between head and source.
#pragma once

#include <string>
#include <string_view>

namespace attnfuse::emulator {

// The running lane, and attnfuse_call(operation, immediate, operands, result).
std::string_view lane_text();
// A C entry point that calls `kernel` with its argument block, and the bounds of the section
// "attnfuse_shared", where shared variables lie together, page by page, so that the loader can poison and
// guard them.
std::string entry_text(std::string_view kernel);

}  // namespace attnfuse::emulator
