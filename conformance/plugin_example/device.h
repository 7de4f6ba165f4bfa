// The machine itself as a device: memory is memory, a module is a shared object, a launch calls its function
// once per workgroup, on all cores.
#pragma once

#include <memory>

#include "runtime/device.h"

namespace cpp_backend {

std::shared_ptr<attnfuse::Device> make_device(attnfuse::Target target);

}  // namespace cpp_backend
