// HIP: kernels assembled by hiprtc or clang, executed through the HIP runtime, all opened at run time and
// declared here by hand. The clang path is exercised wherever clang is; hiprtc and the device path need an
// AMD GPU, and no test of this project has run them on one.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/device.h"

namespace attnfuse::hip {

// HIP C++ on clang builtins (no headers, no device library) to a code object, by clang 16 or later, or by
// hiprtc where there is none. `entry` is an extern "C" kernel. Diagnostics: "toolkit.missing",
// "assemble.failed" with the log.
Result<Binary> assemble(const std::string& source, const std::string& entry, const Target& target);

// "clang /usr/bin/clang++-19 19", "hiprtc 6.2", empty when there is none.
std::string assembler();

// What clang's resource remarks say: vector and accumulation registers; private memory per lane, which holds
// spills and arrays that are not in registers; static shared memory.
Resources resources_from_log(const std::string& log);

int device_count();  // 0 without a driver
// `targets`: in order of preference. Diagnostics: "driver.missing", "driver.failed", "device.none",
// "device.unsupported" (none of `targets` fits it).
Result<std::shared_ptr<Device>> open(int ordinal, std::span<const Target> targets);

}  // namespace attnfuse::hip
