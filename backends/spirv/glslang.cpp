#include "backends/spirv/glslang.h"

#include <fmt/format.h>

#ifdef ATTNFUSE_HAS_GLSLANG
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <glslang/build_info.h>

#include <memory>
#include <mutex>

namespace attnfuse::spirv {
namespace {

struct DeleteShader {
  void operator()(glslang_shader_t* shader) const { glslang_shader_delete(shader); }
};
struct DeleteProgram {
  void operator()(glslang_program_t* program) const { glslang_program_delete(program); }
};

Diagnostic rejected(std::string_view log) {
  return {"assemble.failed", fmt::format("glslang rejects the kernel:\n{}", log), {}, ""};
}

}  // namespace

bool has_glslang() { return true; }
std::string glslang_version() {
  return fmt::format("glslang {}.{}.{}", GLSLANG_VERSION_MAJOR, GLSLANG_VERSION_MINOR, GLSLANG_VERSION_PATCH);
}

Result<Compiled> compile_glsl(const std::string& text) {
  // glslang keeps state for the process; one compilation at a time.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const int ready = glslang_initialize_process();
  if (ready == 0) return rejected("glslang_initialize_process failed");

  glslang_input_t input{};
  input.language = GLSLANG_SOURCE_GLSL;
  input.stage = GLSLANG_STAGE_COMPUTE;
  input.client = GLSLANG_CLIENT_VULKAN;
  input.client_version = GLSLANG_TARGET_VULKAN_1_2;
  input.target_language = GLSLANG_TARGET_SPV;
  input.target_language_version = GLSLANG_TARGET_SPV_1_5;
  input.code = text.c_str();
  input.default_version = 460;
  input.default_profile = GLSLANG_NO_PROFILE;
  input.messages = GLSLANG_MSG_DEFAULT_BIT;
  input.resource = glslang_default_resource();
  const std::unique_ptr<glslang_shader_t, DeleteShader> shader(glslang_shader_create(&input));
  if (shader == nullptr) return rejected("glslang_shader_create failed");
  if (glslang_shader_preprocess(shader.get(), &input) == 0 || glslang_shader_parse(shader.get(), &input) == 0)
    return rejected(glslang_shader_get_info_log(shader.get()));

  const std::unique_ptr<glslang_program_t, DeleteProgram> program(glslang_program_create());
  glslang_program_add_shader(program.get(), shader.get());
  if (glslang_program_link(program.get(), GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT) == 0)
    return rejected(glslang_program_get_info_log(program.get()));
  glslang_program_SPIRV_generate(program.get(), GLSLANG_STAGE_COMPUTE);
  Compiled compiled;
  compiled.words.resize(glslang_program_SPIRV_get_size(program.get()));
  if (compiled.words.empty()) return rejected("no code was generated");
  glslang_program_SPIRV_get(program.get(), compiled.words.data());
  if (const char* messages = glslang_program_SPIRV_get_messages(program.get())) compiled.log = messages;
  return compiled;
}

bool knows_extension(std::string_view name) {
  return compile_glsl(
             fmt::format(
                 "#version 460\n#extension {} : require\nlayout(local_size_x = 1) in;\nvoid main() {{}}\n",
                 name))
      .ok();
}

}  // namespace attnfuse::spirv

#else

namespace attnfuse::spirv {

bool has_glslang() { return false; }
std::string glslang_version() { return {}; }
bool knows_extension(std::string_view) { return false; }
Result<Compiled> compile_glsl(const std::string&) {
  return Diagnostic{"toolkit.missing",
                    "this program was built without glslang, which turns GLSL into SPIR-V",
                    {},
                    "run ./dev setup (or install glslang-dev) and build again"};
}

}  // namespace attnfuse::spirv
#endif
