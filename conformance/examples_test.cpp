#include "conformance/examples.h"

#include <doctest/doctest.h>

#include "backends/backend.h"
#include "frontend/parser.h"
#include "passes/passes.h"

namespace attnfuse::conformance {

TEST_CASE("every example becomes a kernel for every target") {
  REQUIRE(examples().size() > 60);
  for (const Example& example : examples()) {
    INFO(example.name);
    const auto graph = parse_one(example.text);
    REQUIRE_MESSAGE(graph.ok(), render(graph.errors(), example.text));
    for (const Backend* backend : backends())
      for (const Target& target : backend->targets()) {
        INFO(target.name);
        const auto program = compile_to_tiles(*graph, target);
        REQUIRE_MESSAGE(program.ok(), render(program.errors()));
        const auto source = backend->emit(*program);
        CHECK_MESSAGE(source.ok(), render(source.errors()));
      }
  }
}

}  // namespace attnfuse::conformance
