#include "runtime/machine.h"

#include <fmt/format.h>

namespace attnfuse {

Result<Machine> open_machine(std::string_view target_name) {
  const Backend* backend = find_backend(target_name);
  Target wanted;
  if (!backend) {
    auto target = find_target(target_name);
    if (!target) return target.errors();
    wanted = std::move(target).value();
    backend = find_backend(wanted.backend);
    ATTNFUSE_CHECK(backend, "a target without backend: " + wanted.name);
  }
  auto device = backend->open_current();
  if (!device) return device.errors();
  if (wanted.name.empty()) return Machine{backend, *device, (*device)->target()};
  for (Target& runs : (*device)->targets())
    if (runs.name == wanted.name) return Machine{backend, *device, std::move(runs)};
  return Diagnostic{"device.wrong-target",
                    fmt::format("{} does not run {}", (*device)->name(), wanted.name),
                    {},
                    "name one of its targets: " + (*device)->target().name};
}

}  // namespace attnfuse
