// Emitted sources against files in golden/, so that a change of generated code is a diff that somebody reads.
// ATTNFUSE_BLESS=1 rewrites them. Then the real assemblers judge them, where they are present.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "backends/backend.h"
#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::conformance {
namespace {

struct GoldenProgram {
  const char* name;
  const char* text;
};
constexpr GoldenProgram kPrograms[] = {
    {"causal_rope",
     "attention causal_rope { heads 4 kv_heads 2 head_dim 64 dtype f16 query rope(theta = 10000) "
     "key rope(theta = 10000) score scale(1 / sqrt(64)) mask causal normalize softmax }"},
    {"capped_window",
     "attention capped_window { heads 8 kv_heads 4 head_dim 128 dtype bf16 score scale(0.0625) "
     "score softcap(50) mask window(4096) normalize softmax }"},
    {"sink_bias",
     "attention sink_bias { heads 6 kv_heads 2 head_dim 32 dtype f32 param sink : f32[heads] "
     "param bias : f32[heads, sq, skv] score x + bias[h, i, j] mask i >= j || j < 4 "
     "normalize softmax(sink = sink[h]) }"},
    {"packed", "attention packed { heads 4 kv_heads 2 head_dim 64 dtype bf16 storage ragged mask causal }"},
    {"paged",
     "attention paged { heads 4 kv_heads 2 head_dim 64 dtype f16 storage ragged, paged(page_size = 16) }"},
    {"differential",
     "attention differential { heads 4 kv_heads 2 head_dim 32 v_head_dim 64 dtype f16 param l : f32[heads] "
     "mask causal output differential(l) output norm }"},
};
// By what find_target takes: a backend alone means its first device's target, which a golden file must not
// depend on.
constexpr const char* kTargets[] = {"cuda:sm_90a", "hip:gfx942", "hip:gfx1100", "spirv:generic"};

std::filesystem::path golden_path(const GoldenProgram& program, const Target& target, const Source& source) {
  return std::filesystem::path(ATTNFUSE_SOURCE_DIR) / "conformance" / "golden" /
         fmt::format("{}.{}_{}.{}", program.name, target.backend, target.arch, source.extension);
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string first_difference(const std::string& got, const std::string& wanted) {
  std::istringstream got_lines(got), wanted_lines(wanted);
  std::string got_line, wanted_line;
  for (int line = 1;; ++line) {
    const bool more_got = bool(std::getline(got_lines, got_line)),
               more_wanted = bool(std::getline(wanted_lines, wanted_line));
    if (!more_got && !more_wanted) return "only the end differs";
    if (more_got != more_wanted || got_line != wanted_line)
      return fmt::format("line {}\n  got    {}\n  golden {}", line, more_got ? got_line : "(end)",
                         more_wanted ? wanted_line : "(end)");
  }
}

template <class Visit>
void for_each_golden(Visit visit) {
  for (const char* target_name : kTargets) {
    const auto target = find_target(target_name);
    REQUIRE_MESSAGE(target.ok(), target_name);
    const Backend* backend = find_backend(target->backend);
    for (const GoldenProgram& program : kPrograms) {
      INFO(target_name, " ", program.name);
      const auto graph = parse_one(program.text);
      REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), program.text));
      const auto tiles = compile_to_tiles(*graph, *target);
      REQUIRE_MESSAGE(tiles.ok(), render(tiles.errors()));
      const auto source = backend->emit(*tiles);
      REQUIRE_MESSAGE(source.ok(), render(source.errors()));
      visit(program, *target, *backend, *source);
    }
  }
}

}  // namespace

TEST_CASE("emitted sources are the golden ones") {
  const bool bless = std::getenv("ATTNFUSE_BLESS") != nullptr;
  for_each_golden(
      [&](const GoldenProgram& program, const Target& target, const Backend&, const Source& source) {
        const auto path = golden_path(program, target, source);
        if (bless) std::ofstream(path, std::ios::binary) << source.text;
        const std::string golden = read(path);
        const bool same = source.text == golden;  // not in the macro, which would print both texts
        CHECK_MESSAGE(same, path.filename().string() << " differs (ATTNFUSE_BLESS=1 rewrites it): "
                                                     << first_difference(source.text, golden));
      });
}

TEST_CASE("golden sources pass their assemblers, where these are present") {
  for_each_golden(
      [&](const GoldenProgram&, const Target& target, const Backend& backend, const Source& source) {
        const auto binary = backend.assemble(source, target);
        if (binary) {
          CHECK_FALSE(binary->bytes.empty());
        } else if (binary.errors().front().code == "toolkit.missing") {
          MESSAGE(target.name << " skipped: " << binary.errors().front().message);
        } else {
          FAIL_CHECK(render(binary.errors()));
        }
      });
}

}  // namespace attnfuse::conformance
