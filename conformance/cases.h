// The table of conformance cases, generated family by family; each family covers one promise of the contract.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/case.h"

namespace attnfuse::conformance {

// quick runs in minutes on a CPU's Vulkan driver, full is for GPUs.
enum class CaseSet : std::uint8_t { quick, full };

struct Family {
  std::string_view name;
  std::string_view promise;  // what a passing family means
  // Kinds of public failures of attention kernels that it looks for; names of failure_kinds().
  std::string_view failures;
  std::vector<Case> (*cases)(CaseSet set);
};
std::span<const Family> families();

// The kinds of failures that some family looks for, or that all of them do by how they run.
struct FailureKind {
  std::string_view name, about;
  std::string_view everywhere = {};  // what looks for it in every case, or beside the cases
};
std::span<const FailureKind> failure_kinds();

// Families and what they promise, then the kinds of failures and where they are looked for, in Markdown.
std::string families_markdown();

// Every case of every family, in table order; lines are unique.
std::vector<Case> all_cases(CaseSet set);

}  // namespace attnfuse::conformance
