// GLSL compute text to SPIR-V, in process. Used by the SPIR-V backend; the only file that knows glslang.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/diagnostic.h"

namespace attnfuse::spirv {

// Whether this program was built with glslang.
bool has_glslang();
// "glslang 13.1.1", empty without it.
std::string glslang_version();
// Whether glslang knows a GLSL extension: "GL_KHR_cooperative_matrix" needs version 13.
bool knows_extension(std::string_view name);

struct Compiled {
  std::vector<std::uint32_t> words;
  std::string log;
};
// "toolkit.missing" without glslang; "assemble.failed" with the compiler's messages.
Result<Compiled> compile_glsl(const std::string& text);

}  // namespace attnfuse::spirv
