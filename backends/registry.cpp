// The explicit list of backends, in order of preference.
#include <fmt/format.h>

#include "backends/backend.h"
#include "backends/cuda/backend.h"
#include "backends/hip/backend.h"
#include "backends/spirv/backend.h"

namespace attnfuse {
namespace {

std::vector<const Backend*>& list() {
  static std::vector<const Backend*> all = {
      &cuda::backend(),         &hip::backend(),           &spirv::backend(),
      &hip::emulated_backend(), &cuda::emulated_backend(),
  };
  return all;
}

}  // namespace

std::span<const Backend* const> backends() { return list(); }

void add_backend(const Backend& backend) { list().push_back(&backend); }

const Backend* find_backend(std::string_view name) {
  for (const Backend* backend : backends())
    if (backend->name() == name) return backend;
  return nullptr;
}

std::vector<Target> all_targets() {
  std::vector<Target> result;
  for (const Backend* backend : backends())
    for (Target& target : backend->targets()) result.push_back(std::move(target));
  return result;
}

Result<Target> find_target(std::string_view name) {
  std::string known;
  for (const Target& target : all_targets()) {
    if (target.name == name) return target;
    known += (known.empty() ? "" : ", ") + target.name;
  }
  if (const Backend* backend = find_backend(name)) {
    if (backend->device_count() > 0)
      if (const auto device = backend->open(0)) return (*device)->target();
    return backend->targets().front();
  }
  return Diagnostic{
      "target.unknown", fmt::format("there is no target '{}'", name), {}, "use one of " + known};
}

}  // namespace attnfuse
