// The table of conformance cases, generated family by family; each family covers one promise of the contract.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "conformance/case.h"

namespace attnfuse::conformance {

// quick runs in minutes on a CPU's Vulkan driver, full is for GPUs.
enum class CaseSet : std::uint8_t { quick, full };

struct Family {
  std::string_view name;
  std::string_view promise;  // what a passing family means
  std::vector<Case> (*cases)(CaseSet set);
};
std::span<const Family> families();

// Every case of every family, in table order; lines are unique.
std::vector<Case> all_cases(CaseSet set);

}  // namespace attnfuse::conformance
