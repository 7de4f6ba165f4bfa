// CUDA: kernels assembled by NVRTC (or nvcc), executed through the driver API. Both are opened at run time
// and declared here by hand, so that this builds without CUDA and the binary runs without it.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runtime/device.h"

namespace attnfuse::cuda {

// CUDA C++ to a cubin. `entry` is an extern "C" kernel. Registers, spills and static shared memory are read
// off the assembler's log. Diagnostics: "toolkit.missing", "assemble.failed" with the log.
Result<Binary> assemble(const std::string& source, const std::string& entry, const Target& target);

// "nvrtc 13.0", "nvcc /usr/local/cuda/bin/nvcc", empty when there is none.
std::string assembler();

// What an assembler's -v messages say.
Resources resources_from_log(const std::string& log);

// Does a GPU of this compute capability run code for `arch`? "sm_80": same generation, at least that minor;
// "sm_90a": exactly that one.
bool runs(int major, int minor, const std::string& arch);

int device_count();  // 0 without a driver
// `targets`: oldest architecture first. A device leaves every thread's current context as it found it.
// Diagnostics: "driver.missing", "driver.failed", "device.none", "device.unsupported" (none of `targets` fits
// it).
Result<std::shared_ptr<Device>> open(int ordinal, std::span<const Target> targets);
// Over the context that is current on this thread, which stays the caller's: it is never made or destroyed
// here, and what is allocated in it must be given back before its owner destroys it. Without a current
// context: device 0, as open() does it. Same diagnostics.
Result<std::shared_ptr<Device>> open_current(std::span<const Target> targets);

}  // namespace attnfuse::cuda
