// Targets are data: shared code must not know any by name.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

TEST_CASE("shared code names no target, vendor or architecture") {
  // Letters before or after make another word ("hipster", "ship").
  const std::regex names(
      R"((^|[^a-z_])(cuda|nvidia|hip|amd|rocm|spirv|vulkan|glsl|sm_\d+|gfx\d+|hopper|mfma|wmma|wgmma)([^a-z]|$))",
      std::regex::icase);
  int files = 0;
  for (const char* folder : {"ir", "passes", "backends/common"})
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(ATTNFUSE_SOURCE_DIR) / folder)) {
      const std::string path = entry.path().string();
      const bool is_code = path.ends_with(".cpp") || path.ends_with(".h");
      if (!is_code || path.ends_with("_test.cpp")) continue;
      ++files;
      std::ifstream in(entry.path());
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        const std::string code = line.substr(0, line.find("//"));  // comments may give examples
        CHECK_MESSAGE(!std::regex_search(code, names), path, ":", number, ": ", line);
      }
    }
  CHECK(files > 20);
}
