#include <string_view>

#include "runtime/capi/handles.h"

namespace attnfuse::capi {
namespace {

thread_local std::string last_error;

// The status of a diagnostic, by the beginning of its code; the first row that fits.
struct Row {
  std::string_view code;
  attnfuse_status status;
};
constexpr Row kStatuses[] = {
    {"input.", ATTNFUSE_BAD_TENSOR},
    {"output.", ATTNFUSE_BAD_TENSOR},
    {"launch.workspace", ATTNFUSE_BAD_WORKSPACE},
    {"target.", ATTNFUSE_NO_TARGET},
    {"device.none", ATTNFUSE_NO_DEVICE},
    {"device.wrong-target", ATTNFUSE_NO_DEVICE},
    {"device.unsupported", ATTNFUSE_NO_DEVICE},
    {"driver.", ATTNFUSE_NO_DEVICE},
    {"backend.compiled-out", ATTNFUSE_NO_DEVICE},
    {"toolkit.missing", ATTNFUSE_NO_TOOLKIT},
    {"merge.", ATTNFUSE_BAD_PROGRAM},
    {"schedule.", ATTNFUSE_UNSUPPORTED},
    {"device.out-of-memory", ATTNFUSE_OUT_OF_MEMORY},
};

constexpr const char* kNames[] = {
    "ok",        "bad argument", "bad program", "bad tensor",    "bad workspace", "no such target",
    "no device", "no toolkit",   "unsupported", "out of memory", "device failed", "internal error"};

}  // namespace

attnfuse_status fail(attnfuse_status status, const std::string& message) {
  last_error = message;
  return status;
}

attnfuse_status fail(const Diagnostics& diagnostics, std::string_view source) {
  const std::string message = render(diagnostics, source);
  for (const Row& row : kStatuses)
    if (!diagnostics.empty() && diagnostics.front().code.substr(0, row.code.size()) == row.code)
      return fail(row.status, message);
  return fail(ATTNFUSE_DEVICE_FAILED, message);
}

attnfuse_status bad_argument(const std::string& message) { return fail(ATTNFUSE_BAD_ARGUMENT, message); }

}  // namespace attnfuse::capi

using namespace attnfuse;

uint32_t attnfuse_version(void) { return ATTNFUSE_VERSION; }

const char* attnfuse_status_name(attnfuse_status status) {
  const auto number = std::size_t(status);
  return number < std::size(capi::kNames) ? capi::kNames[number] : "unknown status";
}

const char* attnfuse_last_error(void) { return capi::last_error.c_str(); }
