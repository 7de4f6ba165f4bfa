// Machine: a device, and what is compiled for it.
#pragma once

#include <memory>
#include <string_view>

#include "backends/backend.h"

namespace attnfuse {

struct Machine {
  const Backend* backend;
  std::shared_ptr<Device> device;
  Target target;  // one of the device's
};

// `target` as find_target takes it; a backend's name alone means what the device runs best. The device is the
// backend's current one (Backend::open_current). Diagnostics: those of find_target and of opening, and
// "device.wrong-target".
Result<Machine> open_machine(std::string_view target);

}  // namespace attnfuse
