// The words of a SPIR-V module, as far as the Vulkan driver's side reads and changes them. Drivers take
// modules on trust, so that whatever is no whole compute module must be found here. Used by
// runtime/vulkan_module.
#pragma once

#include <cstdint>
#include <vector>

namespace attnfuse::vulkan {

// Threads per workgroup that the module declares; 0 when the words are no SPIR-V compute module.
int declared_threads(const std::vector<std::uint32_t>& words);

// The module without its demand that zeros' signs, infinities and NaN are kept, for devices that know no such
// demand and so would refuse it. `words` are a module that declares threads.
std::vector<std::uint32_t> without_nan_demand(const std::vector<std::uint32_t>& words);

}  // namespace attnfuse::vulkan
