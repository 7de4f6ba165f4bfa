#include "frontend/cli/best_device.h"

#include "backends/backend.h"

namespace attnfuse::cli {

Result<std::string> best_device() {
  Diagnostics reasons;
  for (const Backend* backend : backends()) {
    const auto device = backend->open(0);
    if (device) return backend->name();
    reasons.insert(reasons.end(), device.errors().begin(), device.errors().end());
  }
  return reasons;
}

}  // namespace attnfuse::cli
