// The JSON header of a safetensors file, checked as far as it can be without the data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "runtime/tensor.h"

namespace attnfuse {

struct SafetensorsEntry {
  std::string name;
  TensorLayout layout;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

// In the order of their data, which covers [0, end of the last one) without hole or overlap. `file` names the
// file.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(const std::string& json,
                                                               const std::string& file);

}  // namespace attnfuse
