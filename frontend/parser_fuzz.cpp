// libFuzzer target: any bytes give programs or diagnostics, and a program that was read is read again the
// same after printing. Corpus: frontend/examples.
#include <cstdlib>

#include "frontend/parser.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace attnfuse;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto graphs = parse(text); !graphs && render(graphs.errors(), text).empty()) std::abort();
  const auto specs = parse_spec(text);
  if (!specs) return 0;
  for (const Spec& spec : *specs) {
    const auto again = parse_spec(print(spec));
    if (!again || again->size() != 1 || !(again->front() == spec)) std::abort();
  }
  return 0;
}
