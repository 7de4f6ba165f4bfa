#include "backends/emulator/host_text.h"

#include <fmt/format.h>

namespace attnfuse::emulator {
namespace {

// The guard starts on the first page after the shared variables. `attnfuse_start` deduces the argument
// struct.
constexpr std::string_view kEntry = R"(
alignas(4096) __attribute__((used, section("attnfuse_shared"))) static char attnfuse_shared_guard[8192];
extern "C" {{
extern char __start_attnfuse_shared[];
char* attnfuse_shared_begin = __start_attnfuse_shared;
char* attnfuse_guard = attnfuse_shared_guard;
}}
template <class Arguments>
static void attnfuse_start(void (*kernel)(Arguments), const void* params) {{ kernel(*static_cast<const Arguments*>(params)); }}
extern "C" void attnfuse_entry(const void* params) {{ attnfuse_start({}, params); }}
)";

}  // namespace

std::string_view lane_text() {
  return R"(
struct attnfuse_lane_state {
  unsigned thread, threads;
  unsigned workgroup[3], grid[3];
  void (*call)(int operation, int immediate, const void* operands, void* result);
};
extern "C" { attnfuse_lane_state attnfuse_state; }
#define AF_EMU static inline __attribute__((always_inline))
AF_EMU void attnfuse_call(int operation, int immediate, const void* operands, void* result) {
  attnfuse_state.call(operation, immediate, operands, result);
}
)";
}

std::string entry_text(std::string_view kernel) { return fmt::format(kEntry, kernel); }

}  // namespace attnfuse::emulator
