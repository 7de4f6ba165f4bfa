#include "backends/cuda/emulator/host_functions.h"

#include <doctest/doctest.h>

namespace attnfuse::cuda {

TEST_CASE("functions with assembly give way to the host's, and lines keep their numbers") {
  const std::string source =
      "struct S { int x; };\n"
      "AF_FN int plain(int x) { return x; }\n"
      "AF_FN int one(int x) {\n"
      "  asm volatile(\"{ add %0, \\\"}\\\" }\" : \"+r\"(x));  // }\n"
      "  return x;\n"
      "}\n"
      "template <int N> AF_FN void two() { asm volatile(\"two %0;\" ::\"n\"(N)); }\n"
      "AF_FN int unknown(int x) { asm(\"\"); return x; }\n"
      "void kernel() {}\n";
  const std::string host =
      "struct forward;\n"
      "AF_FN int other() { return 3; }\n"
      "template <int N> AF_FN void two() {}\n"
      "AF_FN int one(int x) { return x + 1; }\n";
  CHECK(with_host_functions(source, host) ==
        "struct S { int x; };\n"
        "AF_FN int plain(int x) { return x; }\n"
        "struct forward;\n"
        "template <int N> AF_FN void two() {}\n"
        "AF_FN int one(int x) { return x + 1; }\n"
        "#line 3 \"kernel.cu\"\n"
        "\n\n\n\n"
        "\n"
        "AF_FN int unknown(int x) { asm(\"\"); return x; }\n"
        "void kernel() {}\n");
  CHECK(with_host_functions("int x;\n", host) == "int x;\n");
}

}  // namespace attnfuse::cuda
