// libFuzzer target: any bytes give tensors or a diagnostic, and what was read is read again the same after
// writing.
#include <cstdlib>
#include <sstream>

#include "runtime/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace attnfuse;
  std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
  const auto first = read_safetensors(stream, "fuzz");
  if (!first) return 0;
  std::istringstream again(safetensors_bytes(*first));
  const auto second = read_safetensors(again, "fuzz");
  if (!second || second->size() != first->size()) std::abort();
  for (const auto& [name, tensor] : *first) {
    const auto found = second->find(name);
    if (found == second->end() || found->second.bytes != tensor.bytes ||
        found->second.layout.shape != tensor.layout.shape)
      std::abort();
  }
  return 0;
}
