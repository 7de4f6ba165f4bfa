// Complete C++ text to a shared object for this machine.
#pragma once

#include <string>

#include "runtime/device.h"

namespace attnfuse::emulator {

// Diagnostics: "toolkit.missing", "assemble.failed". Format of the binary: "host-so".
Result<Binary> compile_for_host(const std::string& text, const std::string& entry, const Target& target);

}  // namespace attnfuse::emulator
